"""Whether a copy of a low-trust memory keeps full trust, and whether undo finds it.

Each row of `stores/authority/laundering.jsonl` has a memory of low trust, three copies and an
innocent memory on the same matter. A low-trust token stores the originals, an agent is told them,
and the copies come in as they would: restated by the agent's own token, echoed in an answer of a
session, imported from an export of ours. Innocent memories are stored twice: in the tenant in which
the originals were told a moment ago, and in one in which nobody was told them.

Each row has a session of its own, which is given the original; the restated and the echoed copy are
stored in it. What undo does not take along, it may list as a possible copy: measured by nearness
and words alone, and with what sessions were given.

    python -m bench laundering           # the half `build`
    python -m bench laundering --kept    # the other half, which nobody looked at
"""

import asyncio
import json
import logging
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import structlog

from bench.lab import CachedEmbedder, laboratory
from butlers.auth.rights import Caller
from butlers.embedding import get_embedding_engine
from butlers.memory.flows.remember import store_episode, store_fact, store_rule
from butlers.memory.flows.session_parts import session_key
from butlers.memory.flows.undo import preview_undo, undo_source
from butlers.memory.flows.undo_plan import UndoSource
from butlers.memory.handle import Memory
from butlers.memory.model import (
    Lineage,
    MemoryRef,
    MemoryType,
    New,
    NewEpisode,
    NewFact,
    NewRule,
    Origin,
    Trust,
)
from butlers.memory.operations import OperationContext
from butlers.memory.policy.decisions import sentences
from butlers.memory.policy.repeats import compared
from butlers.portability.formats import ImportRequest, imported
from butlers.portability.native import export_lines
from butlers.sessions.essence import store_session
from butlers.sessions.injection_log import InjectionLog, Occasion, find_given
from butlers.sessions.injections import Delivery, InjectedLine, Injection
from butlers.sessions.log import SessionLog
from butlers.sessions.transcripts import Speaker, Transcript, Utterance

STORE = Path(__file__).parent / "stores" / "authority" / "laundering.jsonl"
CHANNELS = ("restated", "echo", "imported")
MOST_KEPT, MOST_MISSED, MOST_INNOCENT = 0.1, 0.1, 0.2
"""Limits as shares: copies of full trust, copies that undo misses, innocent memories tainted."""
_ROWS = (
    "select id, content, trust from episodes where tenant_id = $1 and quarantined is null "
    "and episode_state(expires_at, $2) <> 'expired' union all "
    "select id, content, trust from facts where tenant_id = $1 and validity = 'active' union all "
    "select id, content, trust from rules where tenant_id = $1 and quarantined is null "
    "and rule_state(metadata) <> 'forgotten'"
)
Row = Mapping[str, Any]


def read(half: str) -> list[Row]:
    """The rows of a half."""
    rows = map(json.loads, STORE.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["half"] == half]


def new_of(said: Row) -> New:
    """A memory of the data as it is stored."""
    if said["kind"] == "fact":
        return NewFact(said["subject"], said["predicate"], said["content"])
    return (
        NewRule(said["content"]) if said["kind"] == "rule" else NewEpisode(said["content"], "bench")
    )


async def store(memory: Memory, said: Row, lineage: Lineage) -> MemoryRef | None:
    """Store a memory; None if a proposal waits instead."""
    new = new_of(said)
    match new:
        case NewFact():
            stored: Any = await store_fact(memory, new, lineage)
            return None if stored.waits and "less trusted" in stored.waits else stored.ref
        case NewRule():
            return (await store_rule(memory, new, lineage)).ref
        case NewEpisode():
            return (await store_episode(memory, new, lineage)).ref


async def echo(memory: Memory, row: Row, lineage: Lineage) -> None:
    """An agent says a copy in its answer, and the session is stored."""
    said = [
        Utterance(
            Speaker.USER, "How far are you with it, and what comes next?", "2026-03-01T10:00Z"
        ),
        Utterance(Speaker.AGENT, row["copies"]["echo"], "2026-03-01T10:01Z"),
    ]
    ctx = OperationContext(memory, lineage)
    await store_session(ctx, f"session {row['id']}", Transcript(said), {})


async def repeat(memory: Memory, rows: list[Row], lineage: Lineage) -> None:
    """Each session restates what it was told, and says it in an answer."""
    for row in rows:
        there = replace(lineage, request_id=session_key(f"session {row['id']}"))
        await store(memory, row["copies"]["restated"], there)
        await echo(memory, row, lineage)


async def bring(memory: Memory, rows: list[Row], lineage: Lineage, directory: Path) -> None:
    """Another home, where a person stated the copies, exports them, and this one imports them."""
    elsewhere = Lineage("elsewhere", "cli", origin=Origin.OPERATOR)
    for row in rows:
        await store(memory, row["copies"]["imported"], elsewhere)
    settings = SimpleNamespace(is_enabled=lambda name: False)
    home = SimpleNamespace(root=directory)
    butler: Any = SimpleNamespace(memory=memory, name="bench", home=home, settings=settings)
    with (directory / "export.jsonl").open("wb") as file:
        async for line in export_lines(butler, elsewhere):
            file.write(line)
    done = await imported(butler, ImportRequest(directory / "export.jsonl"), lineage)
    print(f"imported: {done.stored}")


def echoed(row: Row) -> str:
    """The sentence of an answer that says the copy."""
    low = row["low"]["content"]
    each = sentences(row["copies"]["echo"])
    return max(each, key=lambda one: compared(one, low, 0.0)["spelling"])


async def present(memory: Memory, tenant: str) -> list[Row]:
    """Every memory of a tenant that somebody may be told."""
    async with memory.transaction(Lineage(tenant)) as tx:
        # No statement of the product reads everything at once.
        return list(await tx._connection.fetch(_ROWS, tenant, memory.now()))  # noqa: SLF001


def found(rows: list[Row], row: Row, channel: str) -> list[Row]:
    """The memories in which a copy stands."""
    if channel == "echo":
        return [one for one in rows if echoed(row).rstrip(".;") in one["content"]]
    content = row["copies"][channel]["content"]
    return [one for one in rows if one["content"].strip() == content.strip()]


async def tell(memory: Memory, told: dict[str, MemoryRef], tenant: str) -> None:
    """Each session is told one of these memories."""
    memory.uses.count(tenant, list(told.values()), memory.now())
    await memory.settled(tenant)
    caller = Caller(tenant, "token:hooks", "bench")
    for session, ref in told.items():
        await SessionLog(lambda: memory.database, memory.now).note_agent(caller, session)
        line = InjectedLine(MemoryType(ref.type), ref.id, "told", "", 0.8)
        given = Injection("told", (line,), (), 10, Delivery.DELIVERED)
        log = InjectionLog(lambda: memory.database, memory.now)
        await log.record(caller, Occasion(session), given)


async def tainted(memory: Memory, rows: list[Row], lineage: Lineage) -> tuple[int, set[Any]]:
    """How many of the innocent memories an agent may not state, and the ids of all of them."""
    refs = [await store(memory, row["innocent"], lineage) for row in rows]
    known = {one["id"]: one["trust"] for one in await present(memory, lineage.tenant_id)}
    held = sum(ref is None or known.get(ref.id) != Trust.STATED for ref in refs)
    return held, {ref.id for ref in refs if ref}


async def list_possible(memory: Memory, source: UndoSource, person: Lineage) -> list[set[Any]]:
    """The possible copies that a preview lists, without and with what sessions were given."""
    previews = [
        await preview_undo(replace(memory, find_given=known), source, person)
        for known in (None, find_given)
    ]
    return [{row["id"] for row in preview.copies_possible} for preview in previews]


def show_listed(how: str, listed: set[Any], innocent: set[Any], wanted: list[set[Any]]) -> None:
    """Print what a preview lists of the copies that undo leaves, and what else."""
    others = listed.difference(innocent, *wanted)
    print(f"listed as possible copies {how}: {len(listed)}, {len(listed & innocent)} innocent and "
          f"{len(others)} others; neither taken nor listed: "
          f"{sum(map(listed.isdisjoint, wanted))} of {len(wanted)} missed copies")  # fmt: skip


async def measure(half: str) -> int:
    """Print what becomes of the copies of a half; the result says whether the limits held."""
    rows = read(half)
    engine = CachedEmbedder(get_embedding_engine())
    async with laboratory(engine) as (memory, _):
        low = Lineage("told", "token:low", ceiling=Trust.LOW)
        agent, person = (
            Lineage("told", "token:agent"),
            Lineage("told", "cli", origin=Origin.OPERATOR),
        )
        untold = [replace(one, tenant_id="untold") for one in (low, agent)]
        for row in rows:
            await store(memory, row["low"], untold[0])
        unknowing, _ = await tainted(memory, rows, untold[1])
        refs = {f"session {row['id']}": await store(memory, row["low"], low) for row in rows}
        await tell(memory, {session: ref for session, ref in refs.items() if ref}, "told")
        await repeat(memory, rows, agent)
        with tempfile.TemporaryDirectory() as directory:
            await bring(memory, rows, person, Path(directory))
        stored = await present(memory, "told")
        full = {
            channel: [
                row["id"]
                for row in rows
                if any(one["trust"] == Trust.STATED for one in found(stored, row, channel))
            ]
            for channel in CHANNELS
        }
        knowing, innocent = await tainted(memory, rows, agent)
        listings = await list_possible(memory, UndoSource(token="low"), person)
        done = await undo_source(memory, UndoSource(token="low"), person)
        left = await present(memory, "told")
        missed = {
            channel: [row["id"] for row in rows if found(left, row, channel)]
            for channel in CHANNELS
        }
        wanted = [
            {one["id"] for one in found(left, row, channel)}
            for channel, ids in missed.items()
            for row in rows
            if row["id"] in ids
        ]
        taken = sum(
            not found(left, {"copies": {"innocent": row["innocent"]}}, "innocent") for row in rows
        )
    number = len(rows)
    for channel in CHANNELS:
        print(f"{channel}: of {number} copies {len(full[channel])} of full trust, "
              f"{len(missed[channel])} missed by undo")  # fmt: skip
        print(f"  full trust: {', '.join(full[channel])}; missed: {', '.join(missed[channel])}")
    print(f"innocent, of {number}: tainted {unknowing} where nobody was told the original, "
          f"{knowing} just after; taken back by undo {taken}")  # fmt: skip
    for how, listed in zip(("by words alone", "by sessions too"), listings, strict=True):
        show_listed(how, listed, innocent, wanted)
    print(f"undo: {done.facts} facts, {done.rules} rules, {done.episodes} episodes, "
          f"{done.copies} of them copies")  # fmt: skip
    kept, lost = (sum(map(len, one.values())) / (number * len(CHANNELS)) for one in (full, missed))
    return int(kept > MOST_KEPT or lost > MOST_MISSED or knowing / number > MOST_INNOCENT)


def main(options: list[str] | None = None) -> int:
    """Measure a half."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    given = sys.argv[1:] if options is None else options
    return asyncio.run(measure("kept" if "--kept" in given else "build"))


if __name__ == "__main__":
    sys.exit(main())
