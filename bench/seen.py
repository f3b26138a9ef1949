"""What the product sees for the questions of labelled stores: what its ranker is learned from."""

import math
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import sets
from bench.lab import CachedEmbedder, laboratory
from bench.learning import Numbers
from butlers.embedding import get_embedding_engine
from butlers.memory.flows.candidates import CandidateQuery, Candidates, find_candidates
from butlers.memory.handle import Memory
from butlers.memory.model import MemoryType
from butlers.memory.policy.signals import Signals, field, signals

TRAINED = ("friendsqa", "realmem", "assistant", "coding", "facts")
MEASURED = (*TRAINED, "locomo", "beam100k", "few")
FOREIGN_PER_STORE, FOREIGN_PER_PART = 60, 4
DEPTH = 200
# How many of a question's words a flat copy of it lacks.
HIDDEN = 0.6


# Without a text of its own: asyncio makes one of what a run returns, and it would be endless.
@dataclass(frozen=True, repr=False)
class Seen:
    """What the product saw for one question, and which of it is gold (of so many in all)."""

    sight: Candidates
    found: Signals
    gold: Numbers
    of: int

    @property
    def matrix(self) -> Numbers:
        """Candidate by signal."""
        return np.column_stack(list(self.found.by_name.values()))


@dataclass(frozen=True)
class Asked:
    """What was seen for questions of a store's own, and for those of strangers."""

    own: list[Seen]
    foreign: list[Seen]


@dataclass(frozen=True)
class Kind:
    """One kind of store: as it is, flat copies of its own questions, and parts of it by size."""

    whole: Asked
    flat: list[Seen]
    small: dict[int, Asked]


async def see_all(data: Path) -> dict[str, Kind]:
    stores = {
        name: sets.load((sets.OWN if (sets.OWN / name).is_dir() else data) / name)
        for name in MEASURED
    }
    embedder = CachedEmbedder(get_embedding_engine())
    kinds = {}
    for name in MEASURED:
        async with laboratory(embedder) as (memory, _):
            kinds[name] = await _see(memory, name, stores)
        print(f"{name}: {len(kinds[name].whole.own)} questions", file=sys.stderr, flush=True)
    return kinds


async def _see(memory: Memory, name: str, stores: Mapping[str, list[sets.Store]]) -> Kind:
    kind = Kind(Asked([], []), [], {size: Asked([], []) for size in sets.PARTS})
    parts = len(sets.PARTS) * FOREIGN_PER_PART
    # What is learned from must not know the questions of what is only measured.
    known = {other: stores[other] for other in (TRAINED if name in TRAINED else MEASURED)}
    for store in stores[name]:
        strangers = sets.strangers(name, store, known, FOREIGN_PER_STORE + parts)
        random.Random(store.name).shuffle(strangers)
        await _ask(memory, store, strangers[parts:], kind.whole)
        for number, part in enumerate(sets.parts(store) if name in TRAINED else ()):
            some = strangers[number * FOREIGN_PER_PART :][:FOREIGN_PER_PART]
            await _ask(memory, part, some, kind.small[len(part.memories)])
    kind.flat.extend(_flattened(seen) for seen in kind.whole.own)
    return kind


async def _ask(memory: Memory, store: sets.Store, strangers: Sequence[str], asked: Asked) -> None:
    """Every question of a store as it grows, and those of strangers in between."""
    latest, done = sets.latest_of(store), 0
    each = len(strangers) / max(len(store.questions), 1)
    async for question in store.ask_in_order(memory):
        there = sets.asking(memory, question, latest)
        gold = set(question["gold"])
        done += 1
        now = strangers[math.floor(each * (done - 1)) : math.floor(each * done)]
        for text, answers in ((question["text"], gold), *((text, set[str]()) for text in now)):
            seen = await _one(there, store, text, answers)
            if seen is not None:
                (asked.own if answers else asked.foreign).append(seen)


async def _one(memory: Memory, store: sets.Store, text: str, gold: set[str]) -> Seen | None:
    query = CandidateQuery(text, types=(MemoryType.EPISODE,))
    sight = await find_candidates(memory, query, store.lineage, DEPTH)
    if not sight.columns.ids:
        return None
    marks = np.array([float(store.ids[str(one)] in gold) for one in sight.columns.ids])
    return Seen(sight, _signals(sight), marks, len(gold))


def _signals(sight: Candidates) -> Signals:
    return signals(field(sight.columns), sight.columns, sight.question, sight.names)


def _flattened(seen: Seen) -> Seen:
    """The same question over a flat store: no sessions or speakers, most of its words unknown."""
    looked = seen.sight.columns
    dice = random.Random(seen.sight.question.text)
    bare = [word for word in looked.header.bare_words if dice.random() > HIDDEN]
    header = replace(looked.header, bare_words=bare or looked.header.bare_words[:1])
    nothing: list[Any] = [None] * len(looked.ids)
    flat = replace(looked, header=header, session_ids=nothing, places=nothing, authors=nothing)
    numbers = field(flat)
    numbers = replace(numbers, impacts=numbers.impacts * numbers.bare[:, None])
    reading = seen.sight.question
    return replace(seen, found=signals(numbers, flat, reading, seen.sight.names))
