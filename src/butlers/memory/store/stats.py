"""How much is remembered, counted by the database."""

from butlers.db.queries import load
from butlers.db.statements import OnlyRow

_SQL = load(__file__)

count = OnlyRow(_SQL["count"])
