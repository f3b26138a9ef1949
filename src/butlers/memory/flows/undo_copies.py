"""Find the copies of what an undo takes: what was stored later and says the same.

What surely says the same goes too, whoever stored it and however it got there, unless a person
stated, accepted or confirmed it. What may say the same is listed, for a person to choose from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any
from uuid import UUID

from butlers.db.postgres import Row, Transaction
from butlers.memory.flows.provenance import EXACT, NEAREST
from butlers.memory.flows.session_parts import session_key
from butlers.memory.handle import Memory
from butlers.memory.policy.repeats import LEAST, LISTING, resemblance
from butlers.memory.store import repeats, undo

_LISTED = 20
"""Possible copies that are listed for each memory that is taken."""
_GONE = ("gone", "retracted", "forgotten", "expired")
"""States of memories that need no undoing."""
_TOLD = {"told_since": datetime.fromtimestamp(0, UTC)}
_LIMITS = {"few": EXACT, "most": NEAREST, "near": LISTING["near"], **_TOLD}
_GIVEN = ("memory_id", "agent", "first_at", "last_at")


@dataclass(slots=True)
class Copies:
    """What came through a source, its copies, those that a person stated, and possible ones."""

    certain: dict[UUID, Row]
    taken: list[Row] = field(default_factory=list)
    kept: dict[UUID, Row] = field(default_factory=dict)
    possible: list[tuple[float, Row]] = field(default_factory=list)

    @property
    def present(self) -> list[Row]:
        """What is to be undone: what is taken and was not forgotten before."""
        return [row for row in self.taken if row["state"] not in _GONE]

    def columns(self) -> dict[str, list[Any]]:
        """Return the parameters of statements that name the copies."""
        kinds = [row["kind"] for row in self.certain.values()]
        return {"copies": list(self.certain), "copied_kinds": kinds}

    def add(self, row: Row) -> None:
        """Add what was stored after an original."""
        odds = resemblance(row["content"], row["original"], row["similarity"])
        if row["is_suspect"] and (row["is_linked"] or odds >= LEAST["untold"]):
            (self.kept if row["is_persons"] else self.certain)[row["id"]] = row
        elif row["is_close"] or odds >= LISTING["least"]:
            self.possible.append((odds + LISTING["given"] * row["was_given"], row))

    def listed(self) -> list[Row]:
        """Return what may say the same as what is taken, the likeliest first."""
        known, best = {row["id"] for row in self.taken} | self.kept.keys(), dict[UUID, Row]()
        for _, row in sorted(self.possible, key=itemgetter(0), reverse=True):
            if row["id"] not in known and not row["is_persons"] and row["state"] not in _GONE:
                best.setdefault(row["id"], row)
        return list(best.values())[: _LISTED * len(self.taken)]


async def find_copies(
    memory: Memory, tx: Transaction, known: Mapping[str, Any], chosen: Mapping[UUID, Row]
) -> Copies:
    """Find what came through a source and what was chosen besides, with all copies."""
    copies, compared = Copies(dict(chosen)), set[UUID]()
    while True:
        copies.taken = await undo.find_stored(tx, now=memory.now(), **known, **copies.columns())
        new = [row for row in copies.taken if row["id"] not in compared]
        if not new:
            return copies
        compared |= {row["id"] for row in new}
        for row in await _find_later(memory, tx, new):
            if row["id"] not in compared:
                copies.add(row)


async def _find_later(memory: Memory, tx: Transaction, originals: list[Row]) -> list[Row]:
    """Find what was stored after some memories and is near, linked or of a session given them."""
    asked = {f"{name}s": [row[name] for row in originals] for name in ("kind", "id")}
    given = await memory.find_given(tx, ids=asked["ids"]) if memory.find_given else []
    asked |= {name: [row[name] for row in given] for name in _GIVEN}
    asked["session_key"] = [session_key(row["session_id"]) for row in given]
    return await repeats.find_copies(tx, now=memory.now(), **asked, **_LIMITS)
