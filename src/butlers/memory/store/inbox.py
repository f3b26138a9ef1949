"""What waits for a person's decision."""

from butlers.db.queries import load
from butlers.db.statements import Rows

_SQL = load(__file__)

find = Rows(_SQL["find"])
count = Rows(_SQL["count"])
