"""What is known about commands, files and errors."""

from butlers.db.queries import load
from butlers.db.statements import Rows

_SQL = load(__file__)

find_gotchas = Rows(_SQL["find_gotchas"])
find_failures = Rows(_SQL["find_failures"])
