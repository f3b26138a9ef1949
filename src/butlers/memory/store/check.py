"""Compare episodes, facts and rules with the audit log."""

from butlers.db.queries import load
from butlers.db.statements import OnlyRow

_SQL = load(__file__)
_PARTS = [name.removeprefix("check_") for name in _SQL if name.startswith("check_")]

batches = {part: OnlyRow(_SQL[f"check_{part}"]) for part in _PARTS}
"""Each compares the next rows of a part after a key."""
