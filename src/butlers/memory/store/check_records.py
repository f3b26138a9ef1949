"""Compare entities, links, decisions and the bin with the audit log, and the log with them."""

from butlers.db.queries import load
from butlers.db.statements import OnlyRow, Touched

_SQL = load(__file__)
_PARTS = [name.removeprefix("check_") for name in _SQL if name.startswith("check_")]

batches = {part: OnlyRow(_SQL[f"check_{part}"]) for part in _PARTS}
"""Each compares the next rows of a part after a key."""
repairs = {"entities": [Touched(_SQL["repair_entities_1"])]}
"""What puts the names of entities into the search index."""
