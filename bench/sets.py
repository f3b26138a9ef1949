"""Data sets with gold labels: stores of memories, and questions that know their answers.

A set is a directory with `memories.jsonl` (store, id, order, session, date, speaker, text) and
`queries.jsonl` (store, id, type, text, gold, and where it matters `asked` or `before_session`).
A memory is an episode unless its `kind` says "rule" or "fact" (with subject, predicate, content).
"""

import json
import math
import random
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from butlers.memory.flows.batch import store_batch
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, NewEpisode, NewFact, NewRule

OWN = Path(__file__).with_name("stores")
"""Sets that are part of this repository."""
PARTS = (1, 2, 3, 5, 8, 12, 20, 30) * 2
"""How many memories each small store has that is cut out of one."""
_PART_QUESTIONS = 6
_DATE = re.compile(
    r"(\d{1,2})[ -]([A-Za-z]+),?[ -](\d{4})|([A-Za-z]+)[ -](\d{1,2}),?[ -](\d{4})"
    r"|(\d{4})-(\d\d)-(\d\d)"
)

Line = dict[str, Any]


@dataclass
class Store:
    """One person's memories and the questions asked of them."""

    name: str
    memories: list[Line]
    questions: list[Line]
    ids: dict[str, str] = field(default_factory=dict)
    """The id of each stored memory, and its id in the set."""

    @property
    def lineage(self) -> Lineage:
        """Each store is a tenant of its own."""
        return Lineage(self.name)

    async def ask_in_order(self, memory: Memory) -> AsyncIterator[Line]:
        """Yield each question by session, after storing what existed by then."""
        for question in sorted(self.questions, key=lambda q: q.get("before_session", math.inf)):
            await self.fill(memory, question.get("before_session", math.inf))
            yield question

    async def fill(self, memory: Memory, before_session: float = math.inf) -> None:
        """Store what exists before a session, or everything."""
        known = set(self.ids.values())
        new = [m for m in self.memories if m["id"] not in known]
        there = [m for m in new if m.get("session_index", 0) < before_session]
        order = sorted(there, key=lambda m: (m.get("session_index", 0), m["order"]))
        await self._store(memory, order)

    async def _store(self, memory: Memory, lines: Sequence[Line]) -> None:
        batch = await store_batch(memory, [new_memory(line) for line in lines], self.lineage)
        for line, result in zip(lines, batch.results, strict=True):
            if result.stored is None:
                raise ValueError(f"{self.name}/{line['id']} is not stored: {result.error}")
            self.ids[str(result.stored.id)] = line["id"]


def new_memory(line: Line) -> NewEpisode | NewFact | NewRule:
    """Make a memory of a set what it is: a fact, a rule, or an episode."""
    if line.get("kind") == "fact":
        about = line["subject"], line["predicate"], line["content"]
        return NewFact(*about, author=line["speaker"] or None, said_at=instant(line["date"]))
    if line.get("kind") == "rule":
        return NewRule(line["text"], said_at=instant(line["date"]))
    return episode(line)


def episode(line: Line) -> NewEpisode:
    """Make a memory an episode as an agent's hook stores it: who, when, where in which session."""
    who = f"{line['speaker']} ({line['date']}): " if line["speaker"] else ""
    session = line["session"]
    return NewEpisode(
        f"{who}{line['text']}",
        "bench",
        session_id=uuid5(NAMESPACE_OID, f"{line['store']}/{session}") if session else None,
        place=line["order"] if session else None,
        author=line["speaker"] or None,
        said_at=instant(line["date"]),
    )


def instant(written: str | None) -> datetime | None:
    """A date as a set writes it; None where it has none that can be read."""
    match = _DATE.search(written or "")
    if match is None:
        return None
    parts = [part for part in match.groups() if part]
    for form in ("%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y", "%Y %m %d"):
        try:
            return datetime.strptime(" ".join(parts), form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def asking(memory: Memory, question: Line, latest: datetime) -> Memory:
    """The memory at the moment the question is asked: a day after all was said, unless it says."""
    asked = instant(question.get("asked")) or latest + timedelta(days=1)
    return replace(memory, now=lambda: asked)


def latest_of(store: Store) -> datetime:
    """When the last of a store's memories was said."""
    said = [at for at in (instant(line["date"]) for line in store.memories) if at]
    return max(said, default=datetime(2026, 1, 1, tzinfo=UTC))


def load(directory: Path) -> list[Store]:
    """The stores of one set."""
    memories, questions = _read(directory / "memories.jsonl"), _read(directory / "queries.jsonl")
    return [
        Store(name, list(_of(name, memories)), list(_of(name, questions)))
        for name in dict.fromkeys(line["store"] for line in memories)
    ]


def _of(store: str, lines: Sequence[Line]) -> Iterator[Line]:
    return (line for line in lines if line["store"] == store)


def _read(file: Path) -> list[Line]:
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def parts(store: Store) -> Iterator[Store]:
    """Small stores cut out of one, with questions that they answer; the same ones each time."""
    dice = random.Random(store.name)
    lines = sorted(store.memories, key=lambda m: (m.get("session_index", 0), m["order"]))
    places = {line["id"]: place for place, line in enumerate(lines)}
    held = [sorted(places[gold] for gold in q["gold"]) for q in store.questions if q["gold"]]
    for number, size in enumerate(PARTS):
        fitting = [gold for gold in held if gold[-1] - gold[0] < size]
        if not fitting or size >= len(lines):
            continue
        around = dice.choice(fitting)
        first = dice.randint(max(around[-1] - size + 1, 0), min(around[0], len(lines) - size))
        some = [{**line, "store": f"{store.name}/{number}"} for line in lines[first : first + size]]
        ids = {line["id"] for line in some}
        own = [q for q in store.questions if q["gold"] and ids.issuperset(q["gold"])]
        asked = dice.sample(own, min(_PART_QUESTIONS, len(own)))
        yield Store(some[0]["store"], some, [{**q, "before_session": math.inf} for q in asked])


def strangers(
    name: str, store: Store, everything: Mapping[str, Sequence[Store]], count: int
) -> list[str]:
    """Questions of other people: half of the same set, half of others; the same ones each time."""
    dice = random.Random(store.name)
    same = [q["text"] for other in everything[name] if other is not store for q in other.questions]
    others = [
        question["text"]
        for kind, stores in everything.items()
        if kind != name
        for other in stores
        for question in other.questions
    ]
    half = count // 2
    return dice.sample(same, min(half, len(same))) + dice.sample(others, min(half, len(others)))
