"""What rests on what, and what is in doubt because its ground fell."""

from butlers.db.queries import load
from butlers.db.statements import FirstValue, Rows

_SQL = load(__file__)

find = Rows(_SQL["find"])
find_fallen = Rows(_SQL["fallen"])
find_grounds = Rows(_SQL["grounds"])
rests_on = FirstValue[bool](_SQL["rests_on"])
unlink = Rows(_SQL["unlink"])
