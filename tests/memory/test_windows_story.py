"""Any story of one person's home: as told now and as believed then, the memory and a list agree."""

import asyncio
import random
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from butlers.errors import Conflict
from butlers.memory.flows import correct, forget, remember
from butlers.memory.flows.check import StoreCheck
from butlers.memory.model import NewFact

DAYS = range(-30, 60)
STORIES, STEPS = 14, 16
KEYS = ("city", "job")


@dataclass(eq=False)
class Told:
    """A fact of the list: what it says, since when it is known to hold, whether that began."""

    says: str
    since: int
    begun: bool
    id: object = None
    corrects: "tuple[Told, set[int]] | None" = None


@dataclass
class Home:
    """What holds on each day of a key, told one after the other."""

    days: dict[int, Told] = field(default_factory=dict)

    def of(self, told):
        return {day for day, one in self.days.items() if one is told}

    def begin(self, now):
        """Since when something holds that is told without a time; the first day if unknown."""
        return now if any(day <= now for day in self.days) else DAYS[0]

    def next_start(self, after):
        """The day on which something begins that is not there yet."""
        return next(
            (d for d in DAYS if d > after and d in self.days and not self._goes_on(d)), DAYS[-1] + 1
        )

    def last_end(self, before):
        """The last day before another on which something was over."""
        ends = (d for d in DAYS if d < before and d - 1 in self.days and not self._goes_on(d))
        return max(ends, default=DAYS[0])

    def _goes_on(self, day):
        return self.days.get(day - 1) is self.days.get(day)

    def store(self, says, now, first, last):
        holds_now = (first is None or first <= now) and (last is None or now < last)
        same = self.days.get(now)
        if holds_now and same is not None and same.says == says:
            whole = self.of(same)
            begin = min(whole) if first is None else first
            end = max(whole) + 1 if last is None else last
            for day in whole:
                del self.days[day]
            begun = first is not None or same.begun
            return self.paint(Told(says, begin if begun else now, begun), begin, end)
        begin = first
        if first is None:
            past = last is not None and last <= now
            begin = self.last_end(last) if past else self.begin(now)
        end = self.next_start(max(begin, now)) if last is None else last
        begun = begin != DAYS[0]
        return self.paint(Told(says, begin if begun else now, begun), begin, end)

    def paint(self, new, begin, end):
        for other in {id(one): one for one in self.days.values()}.values():
            mine = self.of(other)
            split = min(mine) < begin and max(mine) >= end and mine & set(range(begin, end))
            if split and not other.begun and other.since >= begin:
                for day in (d for d in mine if d < begin):
                    del self.days[day]
            elif split:
                self._part(other, mine, begin, end)
        for day in range(begin, end):
            self.days[day] = new
        return new

    def _part(self, other, mine, begin, end):
        """What is left on both sides is two from now on; the copy is known by no id."""
        now_in = begin > self.now
        later = {d for d in mine if d >= end}
        copied = later if now_in else {d for d in mine if d < begin}
        begun = other.begun or now_in
        copy = Told(other.says, end if now_in else other.since, begun)
        for day in copied:
            self.days[day] = copy
        if not now_in:
            other.begun, other.since = True, end

    now: int = 0


def shown(home):
    return {day: one.says for day, one in home.days.items()}


class Story:
    """One story: the memory and the list are told the same."""

    def __init__(self, memory, lineage, owner, clock, seed):
        self.memory, self.lineage, self.owner, self.clock = memory, lineage, owner, clock
        self.chance, self.first, self.day = random.Random(seed), clock.now, 0
        self.homes = {key: Home() for key in KEYS}
        self.forgotten = []
        self.believed = {}
        self.subject = f"Ann {seed}"

    def at(self, day):
        return None if day is None else self.first + timedelta(days=day)

    async def step(self):
        self.day += self.chance.choice((0, 1, 1, 2))
        self.clock.now = self.at(self.day)
        key = self.chance.choice(KEYS)
        home = self.homes[key]
        home.now = self.day
        deeds = (self.store, self.store, self.store, self.correct, self.undo, self.forget)
        await self.chance.choice((*deeds, self.restore))(key, home)

    async def store(self, key, home):
        says = self.chance.choice(("Oslo", "Rome", "Bonn"))
        first, last = sorted(self.chance.sample(range(-15, 30), 2))
        first, last = self.chance.choice(
            ((None, None), (None, None), (first, None), (None, last), (first, last))
        )
        new = NewFact(self.subject, key, says, valid_from=self.at(first), valid_to=self.at(last))
        stored = await remember.store_fact(self.memory, new, self.lineage)
        told = home.store(says, self.day, first, last)
        told.id = stored.id

    def _known(self, home):
        found = {id(one): one for one in home.days.values() if one.id is not None}
        return sorted(found.values(), key=lambda one: str(one.id))

    async def _active(self, home):
        rows = await self.owner.fetch("select id from facts where validity = 'active'")
        active = {row["id"] for row in rows}
        return [one for one in self._known(home) if one.id in active]

    async def correct(self, key, home):
        for wrong in (await self._active(home))[:1]:
            says = self.chance.choice(("Lima", "Riga"))
            stored = await correct.correct_fact(self.memory, wrong.id, says, self.lineage)
            held = home.of(wrong)
            since = wrong.since if wrong.begun else self.day
            right = Told(says, since, wrong.begun, stored.id, (wrong, held))
            for day in held:
                home.days[day] = right

    async def undo(self, key, home):
        corrected = [one for one in await self._active(home) if one.corrects]
        for right in corrected[:1]:
            stored = await correct.undo_correction(self.memory, right.id, self.lineage)
            wrong, held = right.corrects
            for day in home.of(right):
                del home.days[day]
            free = self._room(home, held)
            back = Told(wrong.says, wrong.since, wrong.begun, stored.id)
            if min(free) > min(held) or back.begun:
                back.begun, back.since = True, min(free)
            for day in free:
                home.days[day] = back

    async def forget(self, key, home):
        for one in (await self._active(home))[:1]:
            await forget.forget_memory(self.memory, "fact", one.id, self.lineage)
            self.forgotten.append((key, one, home.of(one)))
            for day in home.of(one):
                del home.days[day]

    async def restore(self, key, home):
        mine = [one for one in self.forgotten if one[0] == key]
        if not mine:
            return
        _, told, held = last = mine[-1]
        free = self._room(home, held)
        taken = not free or (self.day in held and self.day not in free)
        if taken:
            with pytest.raises(Conflict):
                await forget.restore_memory(self.memory, "fact", told.id, self.lineage)
            return
        assert await forget.restore_memory(self.memory, "fact", told.id, self.lineage)
        self.forgotten.remove(last)
        if min(free) > min(held):
            told.begun, told.since = True, min(free)
        for day in free:
            home.days[day] = told

    def _room(self, home, held):
        """The days that are free: those around today, or else the last."""
        runs = []
        for day in sorted(held - home.days.keys()):
            if runs and day - 1 in runs[-1]:
                runs[-1].add(day)
            else:
                runs.append({day})
        return next((run for run in runs if self.day in run), runs[-1] if runs else set())

    async def agrees(self):
        """What holds on each day is what the list says, and what was believed is not changed."""
        rows = await self.owner.fetch(
            "select id, predicate, content, validity, valid_from, valid_to from facts "
            "where subject = $1",
            self.subject,
        )
        for key, home in self.homes.items():
            told = {}
            for row in rows:
                past = row["validity"] in ("active", "superseded", "expired")
                if row["predicate"] == key and past:
                    for day in self.days(row):
                        assert day not in told, (key, day)
                        told[day] = row["content"]
            assert told == shown(home), key
        self.believed[self.clock.now] = {
            # A window that is empty has no ends.
            row["id"]: (None, None)
            if row["valid_from"] is not None and row["valid_from"] == row["valid_to"]
            else (row["valid_from"], row["valid_to"])
            for row in rows
            if row["validity"] in ("active", "superseded")
        }

    def days(self, row):
        first, last = row["valid_from"], row["valid_to"]
        return [
            day
            for day in DAYS
            if (first is None or first <= self.at(day)) and (last is None or self.at(day) < last)
        ]

    async def remembers(self):
        for at, believed in self.believed.items():
            rows = await self.owner.fetch(
                "select id, lower(w) as valid_from, upper(w) as valid_to from facts, "
                "window_believed(tenant_id, id, $1) w where subject = $2 and w is not null",
                at,
                self.subject,
            )
            assert {r["id"]: (r["valid_from"], r["valid_to"]) for r in rows} == believed


@pytest.mark.contract("L35", "L38")
async def test_every_story_is_told_as_it_was_and_remembered_as_it_was_believed(
    memory, lineage, owner, clock
):
    begin = clock.now
    for seed in range(STORIES):
        clock.now = begin
        story = Story(memory, replace(lineage, request_id=str(seed)), owner, clock, seed)
        for _ in range(STEPS):
            await story.step()
            await story.agrees()
        await story.remembers()
    await asyncio.sleep(0)
    assert (await StoreCheck(memory).run()).lines == []
