"""Every column of a memory goes where `records` says, a new one among them without a word here."""

import json
import uuid
from dataclasses import fields
from datetime import UTC, datetime
from types import UnionType
from typing import get_args, get_origin, get_type_hints

import pytest

from butlers.memory.flows import batch, correct, portable, remember
from butlers.memory.flows.accept_proposal import accept
from butlers.memory.flows.entities import create_entity
from butlers.memory.flows.proposals import Proposal, propose_in, proposed_values
from butlers.memory.model import (
    MemoryRef,
    MemoryType,
    NewEpisode,
    NewFact,
    NewRule,
    Origin,
    Permanence,
    PieceKind,
    ProposalKind,
)
from butlers.memory.records import EPISODE, FACT, INPUT, RULE

PLAIN = {
    str: "word",
    int: 3,
    float: 0.75,
    dict: {"embedding": "kept", "by": "hand"},
    datetime: datetime(2026, 3, 4, tzinfo=UTC),
    Permanence: Permanence.STABLE,
    Origin: Origin.AGENT,
    PieceKind: PieceKind.SAID,
}
# What PostgreSQL makes itself, and what only the worker that holds an episode knows.
NOT_DECLARED = {"retry_count", "last_error", "leased_until", "leased_by"}
# A proposal has a key and sources of its own; who says yes vouches for it, and is sure.
NOT_PROPOSED = {"idempotency_key", "source_episode_id", "origin", "confidence", "doubt"}
OF_SOURCE = {"source_episode_id", "session_id", "place", "author", "said_at"}
TABLES = {"episodes": EPISODE, "facts": FACT, "rules": RULE}


def another(name, hint):
    """A value of a field that its default is not."""
    if name.endswith(("_to", "_until")):
        return datetime(2126, 3, 4, tzinfo=UTC)
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kind = get_origin(kinds[0]) or kinds[0]
    if kind is uuid.UUID:
        return uuid.uuid4()
    if kind is tuple:
        return ("red", "blue")
    return PLAIN[kind]


@pytest.fixture
async def filled(memory, lineage):
    """A memory of a kind in which nothing is left as it is by default."""
    ground = await remember.store_fact(memory, NewFact("ground", "is", "firm"), lineage)
    episode = await remember.store_episode(memory, NewEpisode("it was said", "general"), lineage)
    given = {
        "entity_id": await create_entity(memory, "Ann Smith", "person", (), {}, lineage),
        "depends_on": (MemoryRef(MemoryType.FACT, ground.id),),
        "source_episode_id": episode.id,
        "scope": "general",
    }

    def fill(record, **other):
        hints = get_type_hints(record)
        known = {one.name: another(one.name, hints[one.name]) for one in fields(record)}
        known |= {"doubt": ""} | {name: given[name] for name in given.keys() & known.keys()}
        return record(**known | other)

    return fill


def as_column(value):
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    ("record", "kind"), [(NewFact, ProposalKind.NEW_FACT), (NewRule, ProposalKind.NEW_RULE)]
)
async def test_an_accepted_proposal_keeps_all_that_was_proposed(
    memory, lineage, owner, filled, record, kind
):
    new = filled(record)
    proposal = Proposal("general", kind, proposed_values(new), (), "key")
    async with memory.begin(lineage) as work:
        assert await propose_in(work, proposal, "to see")
    waiting = await owner.fetchval("select id from memory_proposals")
    accepted = await accept(memory, waiting, lineage)
    table = f"{accepted['about']}s"
    row = await _row(owner, table, accepted["about_id"])
    kept = [one for one in INPUT[record].values() if one.proposed and one.is_stored]
    assert {name for name, one in INPUT[record].items() if not one.proposed} <= NOT_PROPOSED
    assert {one.name: row[one.name] for one in kept} == {
        one.name: as_column(getattr(new, one.name)) for one in kept
    }
    rests = "select target_id from memory_links where source_id = $1 and relation = 'depends_on'"
    assert await owner.fetchval(rests, row["id"]) == new.depends_on[0].id


async def test_a_correction_takes_over_what_it_does_not_change(memory, lineage, owner, filled):
    wrong = await remember.store_fact(memory, filled(NewFact), lineage)
    before = await _row(owner, "facts", wrong.id)
    right = await correct.correct_fact(memory, wrong.id, "another word", lineage)
    after = await _row(owner, "facts", right.id)
    changed = {"content", "source_butler", "confidence"}
    assert {name for name, one in INPUT[NewFact].items() if one.of_source} == OF_SOURCE
    for one in INPUT[NewFact].values():
        if one.is_stored and one.corrected and one.name not in changed:
            expected = None if one.of_source else before[one.name]
            assert after[one.name] == expected, one.name


async def test_a_fact_that_held_twice_is_copied_whole(memory, lineage, owner, filled):
    whole = filled(NewFact, idempotency_key="once")
    first = await remember.store_fact(memory, whole, lineage)
    between = filled(
        NewFact,
        content="meanwhile",
        idempotency_key="twice",
        valid_from=datetime(2040, 1, 1, tzinfo=UTC),
        valid_to=datetime(2041, 1, 1, tzinfo=UTC),
    )
    await remember.store_fact(memory, between, lineage)
    query = "select id from facts where content = $1 and id <> $2"
    copy = await _row(owner, "facts", await owner.fetchval(query, whole.content, first.id))
    before = await _row(owner, "facts", first.id)
    own = {"id", "created_at", "valid_from", "valid_to"}
    for one in FACT:
        if one.sql and one.copied and one.name not in own:
            assert copy[one.name] == before[one.name], one.name


@pytest.mark.parametrize("table", TABLES)
async def test_every_column_is_declared_and_taken_along(memory, lineage, owner, table):
    query = "select column_name from information_schema.columns where table_name = $1"
    columns = {row["column_name"] for row in await owner.fetch(query, table)}
    assert columns - NOT_DECLARED == {one.name for one in TABLES[table]}
    exported = set((await portable.columns(memory, lineage))[table.removesuffix("s")])
    made_here = {"tenant_id", "embedding", "embedding_version_id", "search_vector"}
    made_here |= {"confidence_floor"} & columns
    assert {one.name for one in TABLES[table]} - exported == made_here


async def test_what_was_stored_is_in_its_columns(memory, lineage, owner, filled):
    news = [filled(record) for record in (NewEpisode, NewFact, NewRule)]
    stored = await batch.store_batch(memory, news, lineage)
    for new, one, table in zip(news, stored.results, TABLES, strict=True):
        row = await _row(owner, table, one.stored.id)
        for column in INPUT[type(new)].values():
            if column.is_stored:
                assert row[column.name] == as_column(getattr(new, column.name)), column.name


async def _row(owner, table, id):
    row = dict(await owner.fetchrow(f"select * from {table} where id = $1", id))
    return row | {name: json.loads(row[name]) for name in ("tags", "metadata") if name in row}
