"""A week of Mara's life, as her butler remembers it.

    python examples/a_week.py              # in a temporary home that is removed again
    python examples/a_week.py --home DIR   # in a home of your own, which keeps the memories

Stores what happened, what is true and how to behave; prints the block that an agent would start
with; asks ten questions; tells where one of the facts comes from.
"""

import argparse
import asyncio
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from butlers import ButlerMemory, Recalled, open_memory

EPISODES = [
    "Monday: Ida's first day at the new school. She came home with a friend called Noor.",
    "Tuesday: the dentist's office called. Mara's check-up moves from Thursday to Friday, 14:30.",
    "Wednesday: dinner at Jonas's place. He gave up meat and is training for the Berlin marathon.",
    "Thursday: the heating was knocking again. Mr. Haas, the plumber, replaced a valve for 140 "
    "euros; the repair is under warranty until March.",
    "Thursday: worked late on chapter nine. The publisher wants 'fika' left untranslated.",
    "Friday: the dentist found no cavities; the next check-up is in six months.",
    "Saturday: hiked in Saxon Switzerland with Ida and the dog. Ida wants to come back and see the "
    "Bastei bridge at sunrise.",
    "Sunday: planned the week. Ida's class trip on the 23rd needs a signed form and 12 euros.",
]

# Each with its importance, and how long it stays true unless it is confirmed.
FACTS = [
    ("Ida", "allergy", "hazelnuts; her emergency pen is in the red backpack", 8, "permanent"),
    ("Ida", "school", "Lindenschule, class 2b, lessons start at 8:00", 6, "stable"),
    (
        "Mara",
        "work",
        "translates crime novels; the current one is due on 12 December",
        8,
        "standard",
    ),
    ("Mara", "coffee", "flat white with oat milk, no sugar", 5, "stable"),
    ("Mara", "knee", "the left one hurts after runs of more than ten kilometres", 5, "volatile"),
    ("Mara", "dentist appointment", "Thursday, 9:00, Dr. Okafor", 6, "ephemeral"),
    ("boiler", "model", "Vaillant ecoTEC, serial number XK-4471", 5, "stable"),
    ("Pixel", "vet", "Dr. Brandt; the dog's next vaccination is in January", 5, "standard"),
]

ASK_FIRST = "Ask before buying anything that costs more than 50 euros"
NO_CALLS = "No calls before ten: Mara's mornings are for translating"
EVENING_BEFORE = "Remind Mara of appointments on the evening before, not on the same morning"
GROCERIES = "order the groceries from the cheapest delivery service"

# Recall weighs relevance, importance, recency and confidence.
TO_RECALL = [
    "What must not go into Ida's lunch box?",
    "When is the dentist appointment?",
    "What shall we cook when my brother comes to dinner?",
    "When does the translation have to be finished?",
    "What would be a good present for Jonas?",
]

# Search weighs nothing but how well a memory matches, by meaning and by words.
TO_SEARCH = [
    "What did the plumber do, and is it under warranty?",
    "May I phone Mara at nine in the morning?",
    "Which hike does Ida want to repeat?",
    "Should I get the groceries from a delivery service?",
    "XK-4471",
]


async def tell(memory: ButlerMemory) -> UUID:
    """Store the week; the id of the fact that Tuesday's call corrected."""
    episodes = [await memory.store_episode(content) for content in EPISODES]
    for subject, predicate, content, importance, permanence in FACTS:
        await memory.store_fact(
            subject, predicate, content, importance=importance, permanence=permanence
        )
    jonas = await somebody(memory, "Jonas Lindqvist", ["Jo", "Mara's brother"])
    for predicate, content in (
        ("diet", "vegetarian since this week; loves mushroom risotto"),
        ("birthday", "17 November; he would like a climbing course"),
    ):
        await memory.store_fact(
            "Jonas, Mara's brother", predicate, content, importance=7, entity_id=jonas
        )
    moved = await memory.store_fact(
        "Mara",
        "dentist appointment",
        "Friday, 14:30, Dr. Okafor",
        importance=6,
        permanence="ephemeral",
        source_episode_id=episodes[1].id,
    )
    await memory.confirm(moved.id)
    await learn(memory)
    return moved.id


async def somebody(memory: ButlerMemory, name: str, aliases: list[str]) -> UUID:
    """The id of a person, who is created unless known already."""
    known = await memory.resolve_entity(name, entity_type="person")
    if known:
        return UUID(known[0]["entity_id"])
    return await memory.create_entity(name, "person", aliases=aliases)


async def learn(memory: ButlerMemory) -> None:
    """Store rules, and say how following them went."""
    await memory.store_rule(ASK_FIRST)
    no_calls = await memory.store_rule(NO_CALLS)
    await memory.store_rule(EVENING_BEFORE)
    groceries = await memory.store_rule(GROCERIES)
    for _ in range(5):
        await memory.mark_helpful(no_calls.id)
    for reason in (
        "the milk was missing",
        "they sent hazelnut spread, and Ida is allergic",
        "it came three hours late",
    ):
        await memory.mark_harmful(groceries.id, reason)


async def ask(memory: ButlerMemory) -> None:
    """Ask ten questions; the best answer to each, and why it came first."""
    for question in TO_RECALL:
        recalled, *_ = await memory.recall(question, limit=5, counted=False)
        show_answer(question, recalled.row, why(recalled))
    for question in TO_SEARCH:
        found, *_ = await memory.search(question, limit=1)
        ranks = f"number {found['semantic_rank']} by meaning, {found['keyword_rank']} by words"
        show_answer(question, found, ranks)


def why(recalled: Recalled) -> str:
    """The parts of a score."""
    parts = recalled.parts
    return (
        f"{recalled.composite_score:.2f}: relevance {parts.relevance:.2f}, importance "
        f"{parts.importance:.2f}, recency {parts.recency:.2f}, confidence {parts.confidence:.2f}"
    )


async def explain(memory: ButlerMemory, fact_id: UUID) -> None:
    """Where a fact comes from, what it replaced and how long it will be believed."""
    told = await memory.explain(fact_id)
    assert told is not None
    print(f"  says        {told['memory']['content']}")
    print(f"  because     {told['source_episodes'][0]['content']}")
    print(f"  instead of  {told['replaced'][0]['content']}")
    print(f"  confirmed   by {told['confirmations'][0]['by']}")
    print(
        f"  confidence  {told['effective_confidence']:.2f}, fading from {told['fades_at'][:10]} on"
    )


async def sum_up(memory: ButlerMemory) -> None:
    """How much is remembered, and whom a nickname means."""
    counts = await memory.stats()
    facts, rules = counts["facts"], counts["rules"]
    print(f"  {counts['episodes']['total']} episodes: what happened, to be forgotten in a week")
    print(f"  {facts['active']} facts: what is true; {facts['superseded']} was corrected meanwhile")
    print(f"  {sum(rules.values())} rules: how to behave; {rules['anti_pattern']} is a warning now")
    who, *_ = await memory.resolve_entity("Jo")
    print(f"  and Jo, which is an {who['name_match']} of {who['canonical_name']}")


def show_answer(question: str, memory: Mapping[str, Any], reason: str) -> None:
    """A question, its answer and why it is the answer."""
    said = memory["content"]
    if memory.get("predicate"):
        said = f"{memory['subject']}, {memory['predicate']}: {said}"
    print(f"  {question}")
    print(textwrap.fill(said, 90, initial_indent="  → ", subsequent_indent="    "))
    print(f"    ({reason})\n")


def title(text: str) -> None:
    """A heading."""
    print(f"\n{text}\n{'─' * len(text)}\n")


@contextmanager
def some_home(given: Path | None) -> Iterator[Path]:
    """The home that was asked for, or one that is removed in the end."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="butlers-") as directory:
        # Root's database runs as another user, who must be able to pass through.
        Path(directory).chmod(0o711)
        yield Path(directory)


async def main(given: Path | None) -> None:
    """The whole week."""
    with some_home(given) as home:
        async with open_memory("general", home=home, actor="Mara") as memory:
            moved = await tell(memory)
            title("A week of Mara's life")
            await sum_up(memory)
            title("Ten questions, the best answer to each, and why it is the best")
            await ask(memory)
            title("What an agent is told before it plans her Friday")
            print((await memory.context("Plan Mara's Friday", token_budget=400)).text, end="")
            title("Why does it say Friday?")
            await explain(memory, moved)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="A week of Mara's life.")
    arguments.add_argument("--home", type=Path, help="keep the memories there")
    asyncio.run(main(arguments.parse_args().home))
