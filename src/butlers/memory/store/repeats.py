"""The memories that a text may say again."""

from butlers.db.queries import load
from butlers.db.statements import Rows

_SQL = load(__file__)

find_nearest = Rows(_SQL["find_nearest"])
find_copies = Rows(_SQL["find_copies"])
