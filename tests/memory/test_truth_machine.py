"""Whatever is told, put right, merged, parted, forgotten and taken back: what must hold, holds."""

import asyncio
import itertools
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from butlers.errors import ButlersError
from butlers.memory.flows import correct, entities, entity_merge, forget, links, remember
from butlers.memory.flows.check import StoreCheck
from butlers.memory.model import Lineage, NewFact

NAMES = ("Ann", "Bea", "Cid")
PREDICATES = ("city", "job")
SAYS = ("Oslo", "Rome", "Bonn")
TENANTS = itertools.count()
NUMBER = st.integers(0, 11)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("store", "store", "store", "window", "correct", "undo", "forget", "restore", "rest",
             "merge", "part", "wait")
        ),
        NUMBER,
        NUMBER,
        NUMBER,
    ),
    min_size=8,
    max_size=20,
)  # fmt: skip
# What must never be found, whatever was done: each names what is wrong with whom.
NEVER = {
    "a fact that holds has no time": (
        "select id from facts where tenant_id = $1 and validity = 'active' "
        "and valid_from = valid_to"
    ),
    "the audit stream says otherwise": (
        "select f.id from facts f where f.tenant_id = $1 "
        "and state_believed($1, f.id, 'infinity') <> fact_state(f.validity, f.metadata)"
    ),
    "what rests on nothing that stands is not in doubt, or the other way round": (
        "select l.source_id from memory_links l join facts g on g.tenant_id = $1 "
        "and g.id = l.target_id where l.tenant_id = $1 and l.relation = 'depends_on' "
        "and is_fact_current(g, $2, null, null) "
        "= coalesce(g.id = any(in_doubt($1, 'fact', l.source_id, $2, null, null)), false)"
    ),
}


@dataclass
class Life:
    """A tenant's life, a step at a time; a step that is refused changes nothing."""

    memory: Any
    clock: Any
    lineage: Lineage
    facts: list[UUID] = field(default_factory=list)
    people: list[UUID] = field(default_factory=list)

    async def step(self, what: str, one: int, other: int, third: int) -> None:
        with suppress(ButlersError):
            await getattr(self, f"_{what}")(one, other, third)

    async def _store(self, one: int, other: int, third: int, **window: Any) -> None:
        new = NewFact(NAMES[one % 3], PREDICATES[other % 2], SAYS[third % 3], **window)
        stored = await remember.store_fact(self.memory, new, self.lineage)
        self.facts.append(stored.id)
        if stored.identity.entity_id not in (None, *self.people):
            self.people.append(stored.identity.entity_id)

    async def _window(self, one: int, other: int, third: int) -> None:
        start = self.clock.now + timedelta(days=other * 3 - 18)
        ends = {"valid_to": start + timedelta(days=third)} if third else {}
        await self._store(one, other, third, valid_from=start, **ends)

    async def _correct(self, one: int, other: int, _: int) -> None:
        told = await correct.correct_fact(
            self.memory, self._fact(one), SAYS[other % 3], self.lineage
        )
        self.facts.append(told.id)

    async def _undo(self, one: int, *_: int) -> None:
        told = await correct.undo_correction(self.memory, self._fact(one), self.lineage)
        self.facts.append(told.id)

    async def _forget(self, one: int, *_: int) -> None:
        await forget.forget_memory(self.memory, "fact", self._fact(one), self.lineage)

    async def _restore(self, one: int, *_: int) -> None:
        await forget.restore_memory(self.memory, "fact", self._fact(one), self.lineage)

    async def _rest(self, one: int, other: int, _: int) -> None:
        ends = ("fact", self._fact(one), "fact", self._fact(other))
        await links.create_link(self.memory, *ends, "depends_on", self.lineage)

    async def _merge(self, one: int, other: int, _: int) -> None:
        source, target = await self._person(one), await self._person(other)
        await entity_merge.merge_entities(self.memory, source, target, self.lineage)

    async def _part(self, one: int, *_: int) -> None:
        person = await self._person(one)
        await entity_merge.unmerge_entities(self.memory, person, self.lineage)

    async def _wait(self, one: int, *_: int) -> None:
        self.clock.advance(days=one)

    def _fact(self, number: int) -> UUID:
        return self.facts[number % len(self.facts)] if self.facts else UUID(int=0)

    async def _person(self, number: int) -> UUID:
        if len(self.people) < 2:
            name = NAMES[len(self.people)]
            made = entities.create_entity(self.memory, name, "person", None, None, self.lineage)
            self.people.append(await made)
        return self.people[number % len(self.people)]


async def faults(owner: Any, life: Life) -> list[str]:
    """What must never be, and is."""
    tenant, now = life.lineage.tenant_id, life.clock.now
    found = []
    for fault, query in NEVER.items():
        asked = (tenant, now) if "$2" in query else (tenant,)
        found += [f"{fault}: {row[0]}" for row in await owner.fetch(query, *asked)]
    return found


async def disagreements(memory: Any, life: Life) -> list[str]:
    """What does not agree with the audit log, the links, the vectors and the index."""
    check = StoreCheck(memory)
    await check.check_tenant(life.lineage)
    return check.lines


@pytest.mark.contract("L31", "L34", "L38")
@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
async def test_what_must_hold_holds_whatever_was_done(memory, clock, owner, steps):
    life = Life(memory, clock, Lineage(f"life-{next(TENANTS)}", "tester"))
    for step in steps:
        await life.step(*step)
        assert await faults(owner, life) == []
    assert await disagreements(memory, life) == []


@pytest.mark.contract("L31", "L38")
async def test_corrections_and_merges_at_once_leave_one_truth(memory, clock, owner, lineage):
    life = Life(memory, clock, lineage)
    for number in range(12):
        await life.step("store", number, number, number)
    ann, bea = await life._person(0), await life._person(1)
    busy = [
        *(life.step("correct", n % 3, n, 0) for n in range(12)),
        *(life.step("merge", n, n + 1, 0) for n in range(3)),
        *(life.step("part", n, 0, 0) for n in range(3)),
        *(life.step("store", n, n, n + 1) for n in range(12)),
    ]
    await asyncio.gather(*busy)
    assert await faults(owner, life) == []
    assert {ann, bea} <= set(life.people)
    assert await disagreements(memory, life) == []
