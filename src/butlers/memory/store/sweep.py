"""The decay sweep, a page of ids at a time."""

from butlers.db.queries import load
from butlers.db.statements import OnlyRow, Rows

_SQL = load(__file__)

next_facts = OnlyRow(_SQL["next_facts"])
move_facts = Rows(_SQL["move_facts"])
next_rules = OnlyRow(_SQL["next_rules"])
move_rules = Rows(_SQL["move_rules"])
