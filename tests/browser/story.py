"""Some weeks of a household's memory, stored through the flows with a clock that walks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from butlers.host.home import Home
from butlers.host.opening import opened_butler
from butlers.modules.memory.flows import correct, entities, feedback, forget, remember
from butlers.modules.memory.flows.decay_sweep import sweep_all
from butlers.modules.memory.flows.recall import Query, recall
from butlers.modules.memory.memory import Memory
from butlers.modules.memory.model import Lineage, NewEpisode, NewFact, NewRule, Permanence
from butlers.modules.memory.module import MemoryModule

BEGAN = timedelta(days=45)


@dataclass
class Told:
    """What a test needs to find again."""

    allergy: UUID
    tea: UUID
    rule: UUID
    ann: UUID
    annie: UUID


@asynccontextmanager
async def past(home: Home, butler: str) -> AsyncIterator[Memory]:
    """A butler's memory as it was when the story began."""
    async with opened_butler(home, butler) as opened:
        module = opened.module("memory")
        assert isinstance(module, MemoryModule)
        memory = module.memory
        memory.clock = lambda: datetime.now(UTC) - BEGAN
        yield memory


async def tell(home: Home, tenant: str = "default") -> Told:
    """The story of two butlers."""
    lineage = Lineage(tenant, "token:1f6a20", "session-1")
    async with past(home, "general") as memory:
        told = await _general(memory, lineage)
    async with past(home, "kitchen") as memory:
        await _kitchen(memory, Lineage(tenant, "token:77b3c2", "session-9"))
    return told


def _at(memory: Memory, day: float) -> None:
    memory.clock = lambda: datetime.now(UTC) - BEGAN + timedelta(days=day)


async def _general(memory: Memory, who: Lineage) -> Told:
    ann = await entities.create_entity(memory, "Ann Keller", "person", ["Ann"], {}, who)
    annie = await entities.create_entity(memory, "Annie K.", "person", [], {}, who)
    dinner = await remember.store_episode(memory, NewEpisode(
        "Planned a dinner for Ann. She mentioned her peanut allergy again, and that she now drinks "
        "green tea in the mornings instead of coffee.", "general"), who)  # fmt: skip
    allergy = await _fact(memory, who, ann, "Ann", "allergy", "Peanuts; carries an EpiPen in the blue bag",
                          Permanence.PERMANENT, dinner.id, 9, ("health",))  # fmt: skip
    tea = await _fact(memory, who, ann, "Ann", "morning drink", "Coffee with oat milk",
                      Permanence.STANDARD, None, 5, ())  # fmt: skip
    await _fact(memory, who, annie, "Annie", "birthday", "The ninth of May", Permanence.PERMANENT)
    await _fact(memory, who, annie, "Annie", "allergy", "Maybe nuts?", Permanence.VOLATILE)
    rule = (await remember.store_rule(memory, NewRule(
        "Ask before changing an appointment that somebody else made", tags=("calendar",),
        source_butler="general"), who)).id  # fmt: skip
    _at(memory, 3)
    await _fact(memory, who, None, "Office", "wifi", "Guest network, password on the fridge",
                Permanence.EPHEMERAL)  # fmt: skip
    await _fact(memory, who, None, "Flat", "heating", "Turn down to 17 °C at night", Permanence.STABLE,
                None, 6, ("home", "winter"))  # fmt: skip
    _at(memory, 9)
    loud = (await remember.store_rule(memory, NewRule(
        "Send reminders by voice", source_butler="general"), who)).id  # fmt: skip
    for reason in ("woke the baby", "embarrassing in a meeting", "woke the baby"):
        await feedback.mark_harmful(memory, loud, reason, who)
    for day in range(10, 18):
        _at(memory, day)
        await feedback.mark_helpful(memory, rule, who)
        await remember.store_episode(memory, NewEpisode(
            f"Morning briefing {day}: weather, two meetings, one parcel.", "general"), who)  # fmt: skip
    await _fact(memory, who, None, "Passport", "expires", "In the spring of next year",
                Permanence.VOLATILE)  # fmt: skip
    _at(memory, 24)
    tea = (await correct.correct_fact(memory, tea, "Green tea, no sugar", who)).id
    wrong = await _fact(memory, who, None, "Car", "parking", "Level 3, next to the lift", Permanence.EPHEMERAL)
    await forget.forget_memory(memory, "fact", wrong, who)
    _at(memory, 33)
    await sweep_all(memory, "schedule:decay_sweep")
    await feedback.confirm_memory(memory, "fact", allergy, who)
    await recall(memory, Query("what should I cook for Ann?"), 5, who)
    _at(memory, 44.9)
    await _fact(memory, who, None, "Trip to Lisbon", "hotel", "Two nights near the Miradouro, paid",
                Permanence.VOLATILE, None, 7, ("travel",))  # fmt: skip
    await remember.store_episode(memory, NewEpisode(
        "Booked the Lisbon trip: flights on Friday evening, hotel near the Miradouro. Ann joins on "
        "Saturday.", "general"), who)  # fmt: skip
    return Told(allergy, tea, rule, ann, annie)


async def _kitchen(memory: Memory, who: Lineage) -> None:
    _at(memory, 20)
    for number, (what, content) in enumerate((
        ("sourdough", "Feed the starter on Tuesday and Friday"),
        ("knives", "The bread knife is at the sharpener until Monday"),
        ("Ann", "No peanuts, not even oil"),
    )):  # fmt: skip
        _at(memory, 20 + 6 * number)
        await _fact(memory, who, None, what, "note", content, Permanence.STANDARD)
    await remember.store_rule(memory, NewRule(
        "Check allergies before suggesting a recipe", source_butler="kitchen"), who)  # fmt: skip
    _at(memory, 44.5)
    await remember.store_episode(memory, NewEpisode(
        "Cooked a risotto; the mushrooms were too salty.", "kitchen"), who)  # fmt: skip


async def _fact(
    memory: Memory, who: Lineage, entity: UUID | None, subject: str, predicate: str, content: str,
    permanence: Permanence, source: UUID | None = None, importance: float = 5.0,
    tags: tuple[str, ...] = (),
) -> UUID:  # fmt: skip
    new = NewFact(subject, predicate, content, importance, permanence, tags=tags, entity_id=entity,
                  source_butler=memory.butler, source_episode_id=source)  # fmt: skip
    return (await remember.store_fact(memory, new, who)).id
