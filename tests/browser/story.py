"""Some weeks of a household's memory, stored through the flows with a clock that walks."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from butlers.host.home import Home
from butlers.host.hosting import opened_butler
from butlers.memory.flows import correct, entities, feedback, forget, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.consolidation.run import run_consolidation
from butlers.memory.flows.lifecycle import for_every_tenant
from butlers.memory.flows.lifecycle.decay_sweep import run_decay_sweep
from butlers.memory.flows.recall import recall
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, NewEpisode, NewFact, NewRule, Permanence
from butlers.memory.module import MemoryModule
from memory.scripted_model import ScriptedModel, answer, failing
from memory.scripted_model import fact as drawn

BEGAN = timedelta(days=45)


@dataclass
class Told:
    """What a test needs to find again."""

    allergy: UUID
    tea: UUID
    rule: UUID
    ann: UUID
    annie: UUID


class Teller:
    """One agent telling one butler, day by day."""

    def __init__(self, memory: Memory, who: Lineage) -> None:
        self.memory, self.who = memory, who
        self.on(0)

    def on(self, day: float) -> None:
        """It is so many days after the story began."""
        self.memory.now = lambda: datetime.now(UTC) - BEGAN + timedelta(days=day)

    async def fact(self, subject: str, predicate: str, content: str, **more: Any) -> UUID:
        new = NewFact(subject, predicate, content, source_butler=self.memory.butler, **more)
        return (await remember.store_fact(self.memory, new, self.who)).id

    async def rule(self, content: str, *tags: str) -> UUID:
        new = NewRule(content, tags=tags, source_butler=self.memory.butler)
        return (await remember.store_rule(self.memory, new, self.who)).id

    async def episode(self, content: str) -> UUID:
        new = NewEpisode(content, self.memory.butler)
        return (await remember.store_episode(self.memory, new, self.who)).id

    async def consolidate(self, model: ScriptedModel) -> None:
        await run_consolidation(self.memory, model, self.who)


async def tell(home: Home, tenant: str = "default") -> Told:
    """The story of two butlers."""
    async with opened_butler(home, "general") as butler:
        told = await _general(_teller(butler.module("memory"), Lineage(tenant, "token:1f6a20")))
    async with opened_butler(home, "kitchen") as butler:
        await _kitchen(_teller(butler.module("memory"), Lineage(tenant, "token:77b3c2")))
    return told


def _teller(module: object, who: Lineage) -> Teller:
    assert isinstance(module, MemoryModule)
    return Teller(module.memory, who)


async def _general(teller: Teller) -> Told:
    memory, who = teller.memory, teller.who
    ann = await entities.create_entity(memory, "Ann Keller", "person", ["Ann"], {}, who)
    annie = await entities.create_entity(memory, "Annie K.", "person", [], {}, who)
    allergy, coffee = await _about_ann(teller, ann, annie)
    rule = await teller.rule("Ask before moving an appointment somebody else made", "calendar")
    await _about_the_flat(teller)
    await _judged(teller, rule)
    teller.on(24)
    tea = (await correct.correct_fact(memory, coffee, "Green tea, no sugar", who)).id
    wrong = await teller.fact("Car", "parking", "Level 3, next to the lift")
    await forget.forget_memory(memory, "fact", wrong, who)
    teller.on(33)
    await for_every_tenant(memory, "schedule:decay_sweep", run_decay_sweep)
    await feedback.confirm_memory(memory, "fact", allergy, who)
    await recall(memory, CandidateQuery("what should I cook for Ann?"), 5, who)
    teller.on(44.9)
    await teller.fact("Trip to Lisbon", "hotel", "Two nights near the Miradouro, paid",
                      permanence=Permanence.VOLATILE, importance=7.0, tags=("travel",))  # fmt: skip
    await teller.episode(
        "Booked the Lisbon trip: flights on Friday evening. Ann joins on Saturday."
    )
    return Told(allergy, tea, rule, ann, annie)


async def _about_ann(teller: Teller, ann: UUID, annie: UUID) -> tuple[UUID, UUID]:
    dinner = await teller.episode(
        "Planned a dinner for Ann. She mentioned her peanut allergy again, and that she drinks "
        "green tea in the mornings now."
    )
    allergy = await teller.fact(
        "Ann",
        "allergy",
        "Peanuts; carries an EpiPen in the blue bag",
        permanence=Permanence.PERMANENT,
        importance=9.0,
        tags=("health",),
        entity_id=ann,
        source_episode_id=dinner,
    )
    coffee = await teller.fact("Ann", "morning drink", "Coffee with oat milk", entity_id=ann)
    lasting = {"permanence": Permanence.PERMANENT, "entity_id": annie}
    await teller.fact("Annie", "birthday", "The ninth of May", **lasting)
    brief = {"permanence": Permanence.VOLATILE, "entity_id": annie}
    await teller.fact("Annie", "allergy", "Maybe nuts?", **brief)
    return allergy, coffee


async def _about_the_flat(teller: Teller) -> None:
    teller.on(3)
    await teller.fact("Office", "wifi", "Guest network", permanence=Permanence.EPHEMERAL)
    await teller.fact("Flat", "heating", "Turn down to 17 °C at night",
                      permanence=Permanence.STABLE, tags=("home", "winter"))  # fmt: skip
    teller.on(17)
    await teller.fact("Passport", "expires", "In spring", permanence=Permanence.VOLATILE)


async def _judged(teller: Teller, rule: UUID) -> None:
    """One rule that helped and one that did not, and consolidation on the way."""
    teller.on(9)
    loud = await teller.rule("Send reminders by voice")
    for reason in ("woke the baby", "embarrassing in a meeting", "woke the baby"):
        await feedback.mark_harmful(teller.memory, loud, reason, teller.who)
    for day in range(10, 24, 2):
        teller.on(day)
        await feedback.mark_helpful(teller.memory, rule, teller.who)
        await teller.episode(f"Morning briefing {day}: meetings; parcels left with the neighbour.")
        said = answer(new_facts=[drawn("Parcels", f"week {day // 7}", "Left with the neighbour")])
        failed = day in (14, 20)
        await teller.consolidate(failing() if failed else ScriptedModel(said))


async def _kitchen(teller: Teller) -> None:
    for day, what, content in (
        (20, "sourdough", "Feed the starter on Tuesday and Friday"),
        (26, "knives", "The bread knife is at the sharpener until Monday"),
        (32, "Ann", "No peanuts, not even oil"),
    ):
        teller.on(day)
        await teller.fact(what, "note", content)
    await teller.rule("Check allergies before suggesting a recipe")
    await teller.episode("Somebody dictated a shopping list; half of it was not understood.")
    for day in range(33, 44):
        teller.on(day)
        await teller.consolidate(failing())
    teller.on(44.5)
    await teller.episode("Cooked a risotto; the mushrooms were too salty.")
