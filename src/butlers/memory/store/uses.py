"""How often memories were told, and when last."""

from butlers.db.queries import load
from butlers.db.statements import Touched

_SQL = load(__file__)

count = Touched(_SQL["count"])
