"""What came of applying rules: appended to, never changed."""

from butlers.db.queries import load
from butlers.db.statements import Rows, Touched

_SQL = load(__file__)

insert = Touched(_SQL["insert"])
find_counted = Rows(_SQL["find_counted"])
find = Rows(_SQL["find"])
find_harm = Rows(_SQL["find_harm"])
