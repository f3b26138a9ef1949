"""Finding out what an id, or the beginning of one, stands for."""

from butlers.db.queries import load
from butlers.db.statements import Rows

_SQL = load(__file__)

find_between = Rows(_SQL["find_between"])
find_scopes = Rows(_SQL["find_scopes"])
