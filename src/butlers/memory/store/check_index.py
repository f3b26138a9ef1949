"""Compare the search index with the memories that it is derived from, and make it anew."""

from butlers.db.queries import load
from butlers.db.statements import OnlyRow, OnlyValue, Touched

_SQL = load(__file__)
_PARTS = [name.removeprefix("check_") for name in _SQL if name.startswith("check_")]

batches = {part: OnlyRow(_SQL[f"check_{part}"]) for part in _PARTS}
"""Each compares the next rows of a part after a key."""
repairs = {
    part: [
        Touched(_SQL[f"repair_{part}_{step}"])
        for step in range(1, 5)
        if f"repair_{part}_{step}" in _SQL
    ]
    for part in _PARTS
}
"""What makes the index anew for the ids that a part found, in this order."""

count_words = OnlyValue[int](_SQL["count_words"])
get_ends = OnlyRow(_SQL["get_ends"])
