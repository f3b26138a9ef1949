"""What episodes cost, and the jobs: a batch of a consolidation, the sweep, the cleanup.

They are run in this process over a tenant that has its facts already. The language model is
scripted: what one costs beside is said in tokens.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import asyncpg

from bench.scaling_meter import Meter, relation_bytes
from bench.speed_load import Note, Vectors
from butlers.kernel.token_count import count_tokens
from butlers.llm import Completion, Usage
from butlers.memory.flows.consolidation.run import run_consolidation
from butlers.memory.flows.lifecycle.decay_sweep import run_decay_sweep
from butlers.memory.flows.lifecycle.episode_retention import run_episode_cleanup
from butlers.memory.flows.remember import store_episode_in
from butlers.memory.handle import Embedding, Memory
from butlers.memory.model import Lineage, NewEpisode

EPISODES = 1_000
_PARTS = 3
"""Of how many facts' texts an episode is made: some 600 characters."""
_FIRST = 3_000_000
_EPISODE = re.compile(r'<episode id="(\d+)".*?<episode_content>\n(.*?)\n</episode_content>', re.S)
Figures = dict[str, Any]


class Reader:
    """A language model that draws a fact from every second episode, in the episode's words."""

    name = "scripted"

    def __init__(self) -> None:
        self.tokens_in: list[int] = []
        self.tokens_out: list[int] = []

    async def complete(self, prompt: str, **_: Any) -> Completion:
        """An answer to a prompt as it is built for any model."""
        episodes = _EPISODE.findall(prompt)
        drawn = [_drawn(int(number), text) for number, text in episodes[::2]]
        rest = [int(number) for number, _ in episodes[1::2]]
        answer = json.dumps({"new_facts": drawn, "nothing_in": rest} | _NOTHING)
        self.tokens_in.append(count_tokens(prompt))
        self.tokens_out.append(count_tokens(answer))
        return Completion(answer, Usage())


_NOTHING: dict[str, list[Any]] = {"updated_facts": [], "new_rules": [], "confirmations": []}


def _drawn(number: int, text: str) -> Figures:
    first, last, predicate, content = text.split(" ", 3)
    told = {"subject": f"{first} {last}", "predicate": predicate}
    return told | {"content": content.split(". ")[0], "source_episode_ids": [number]}


async def measured_chores(
    memory: Memory, owner: asyncpg.Connection, vectors: Vectors, tenant: str
) -> Figures:
    """All of them, one after the other; the tenant's facts have faded afterwards."""
    lineage, meter = Lineage(tenant, "bench"), Meter(owner)
    await memory.embed(["the model is loaded"], lineage)
    return {
        "episode": await _episodes(memory, owner, vectors, lineage),
        "consolidation": await _consolidation(memory, meter, lineage),
        "cleanup": await _cleanup(memory, meter, lineage),
        "sweep": await _sweep(memory, meter, lineage, 0),
        "fading": await _sweep(memory, meter, lineage, 300),
    }


async def _episodes(
    memory: Memory, owner: asyncpg.Connection, vectors: Vectors, lineage: Lineage
) -> Figures:
    """Bytes on the disk, by what grew; the other tables' files have room left in them."""
    await owner.execute("vacuum analyze")
    before = await relation_bytes(owner)
    length = 0
    for notes in vectors.notes(range(_FIRST, _FIRST + EPISODES * _PARTS)):
        length += await _store_episodes(memory, notes, lineage)
    after = await relation_bytes(owner)
    grown = {name: size - before.get(name, 0) for name, size in after.items()}
    told = {name: round(size / EPISODES, 1) for name, size in grown.items() if size > 0}
    return {"characters": round(length / EPISODES), "relations": told}


async def _store_episodes(memory: Memory, notes: Sequence[Note], lineage: Lineage) -> int:
    """How many characters they have in all."""
    version, length = (await memory.embed([" "], lineage))[0].version_id, 0
    async with memory.begin(lineage) as work:
        for at in range(0, len(notes) - len(notes) % _PARTS, _PARTS):
            some = notes[at : at + _PARTS]
            text = ". ".join(one.fact.searchable_text for one in some)
            new = NewEpisode(text, memory.butler)
            embedding = Embedding(some[0].vector.tolist(), version)
            await store_episode_in(work, new, embedding)
            length += len(text)
    return length


async def _consolidation(memory: Memory, meter: Meter, lineage: Lineage) -> Figures:
    reader = Reader()
    async with meter.over() as spent:
        report = await run_consolidation(memory, reader, lineage)
    batches = len(reader.tokens_in)
    # Among texts that no one wrote some look like secrets, and are not kept.
    assert report.facts_created > report.episodes_consolidated / 4, report.errors[:3]
    return {
        "batches": batches,
        "episodes": report.episodes_consolidated / batches,
        "facts": report.facts_created / batches,
        "tokens_in": round(sum(reader.tokens_in) / batches),
        "tokens_out": round(sum(reader.tokens_out) / batches),
        **spent.per(batches),
    }


async def _cleanup(memory: Memory, meter: Meter, lineage: Lineage) -> Figures:
    """Once all that was read has expired."""
    later = memory.now() + timedelta(days=memory.settings.episodes.default_ttl_days + 1)
    with _at(memory, later):
        async with meter.over() as spent:
            report = await run_episode_cleanup(memory, lineage)
    return {"removed": report.expired_deleted, **spent.per(max(report.expired_deleted, 1))}


async def _sweep(memory: Memory, meter: Meter, lineage: Lineage, days: int) -> Figures:
    """So many days from now: nothing has to move at once, everything after most of a year."""
    with _at(memory, memory.now() + timedelta(days=days)):
        async with meter.over() as spent:
            report = await run_decay_sweep(memory, lineage)
    moved = report.facts_fading + report.facts_expired
    checked = report.facts_checked
    return {"checked": checked, "moved": moved, **spent.per(max(checked, 1))}


@contextmanager
def _at(memory: Memory, moment: datetime) -> Iterator[None]:
    """Within this block it is then."""
    clock, memory.now = memory.now, lambda: moment
    try:
        yield
    finally:
        memory.now = clock
