"""The chain of the audit stream: what shows that nothing of it was changed, removed or added."""

from butlers.db.queries import load
from butlers.db.statements import FirstRow, FirstValue, OnlyRow, Rows

_SQL = load(__file__)

verify = OnlyRow(_SQL["verify"])
find_unchained = Rows(_SQL["find_unchained"])
get_head = FirstRow(_SQL["get_head"])
get_number = FirstValue[int](_SQL["get_number"])
