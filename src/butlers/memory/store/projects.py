"""Projects that sessions work in."""

from butlers.db.queries import load
from butlers.db.statements import FirstRow, Rows, Touched

_SQL = load(__file__)

find_known = FirstRow(_SQL["find_known"])
insert = Touched(_SQL["insert"])
touch = Touched(_SQL["touch"])
find_scopes = Rows(_SQL["find_scopes"])
find = Rows(_SQL["find"])
resolve = Rows(_SQL["resolve"])
share = Touched(_SQL["share"])
move = Touched(_SQL["move"])
