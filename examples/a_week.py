"""Store a week of Mara's life, ask ten questions about it, and explain one answer.

    python examples/a_week.py              # in a temporary home, removed at the end
    python examples/a_week.py --home DIR   # in a home of your own, which keeps the memories

Prints the score of each answer and the context that an agent would get.
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

# Subject, predicate, content, importance, permanence.
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

# Asked with recall, which scores relevance, importance, recency and confidence.
TO_RECALL = [
    "What must not go into Ida's lunch box?",
    "When is the dentist appointment?",
    "What shall we cook when my brother comes to dinner?",
    "When does the translation have to be finished?",
    "What would be a good present for Jonas?",
]

# Asked with search, which ranks by meaning and by keywords only.
TO_SEARCH = [
    "What did the plumber do, and is it under warranty?",
    "May I phone Mara at nine in the morning?",
    "Which hike does Ida want to repeat?",
    "Should I get the groceries from a delivery service?",
    "XK-4471",
]


async def store_week(memory: ButlerMemory) -> UUID:
    """Store the week. Return the id of the fact that corrects the dentist appointment."""
    episodes = [await memory.store_episode(content) for content in EPISODES]
    for subject, predicate, content, importance, permanence in FACTS:
        await memory.store_fact(
            subject, predicate, content, importance=importance, permanence=permanence
        )
    jonas = await find_or_create_person(memory, "Jonas Lindqvist", ["Jo", "Mara's brother"])
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
    await store_rules(memory)
    return moved.id


async def find_or_create_person(memory: ButlerMemory, name: str, aliases: list[str]) -> UUID:
    """Return the id of a person, created if unknown."""
    known = await memory.resolve_entity(name, entity_type="person")
    if known:
        return UUID(known[0]["entity_id"])
    return await memory.create_entity(name, "person", aliases=aliases)


async def store_rules(memory: ButlerMemory) -> None:
    """Store rules and mark how well they worked."""
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


async def ask_questions(memory: ButlerMemory) -> None:
    """Ask ten questions and print the best result of each with its score."""
    for question in TO_RECALL:
        recalled, *_ = await memory.recall(question, limit=5, counted=False)
        show_answer(question, recalled.row, score_parts(recalled))
    for question in TO_SEARCH:
        result, *_ = await memory.search(question, limit=1)
        ranks = f"rank {result['semantic_rank']} by meaning, {result['keyword_rank']} by keywords"
        show_answer(question, result, ranks)


def score_parts(recalled: Recalled) -> str:
    """Format the parts of a composite score."""
    parts = recalled.parts
    return (
        f"{recalled.composite_score:.2f}: relevance {parts.relevance:.2f}, importance "
        f"{parts.importance:.2f}, recency {parts.recency:.2f}, confidence {parts.confidence:.2f}"
    )


async def explain(memory: ButlerMemory, fact_id: UUID) -> None:
    """Print where a fact comes from, what it replaced and when it fades."""
    why = await memory.explain(fact_id)
    assert why is not None
    print(f"  content     {why['memory']['content']}")
    print(f"  source      {why['source_episodes'][0]['content']}")
    print(f"  replaced    {why['replaced'][0]['content']}")
    print(f"  confirmed   by {why['confirmations'][0]['by']}")
    print(f"  confidence  {why['effective_confidence']:.2f}, fades from {why['fades_at'][:10]} on")


async def print_counts(memory: ButlerMemory) -> None:
    """Print how much is stored, and which person a nickname resolves to."""
    counts = await memory.stats()
    facts, rules = counts["facts"], counts["rules"]
    print(f"  {counts['episodes']['total']} episodes: what happened")
    print(f"  {facts['active']} facts: what is true; {facts['superseded']} superseded")
    print(f"  {sum(rules.values())} rules: how to behave; {rules['anti_pattern']} is now a warning")
    person, *_ = await memory.resolve_entity("Jo")
    print(f"  1 entity: Jo is an {person['name_match']} of {person['canonical_name']}")


def show_answer(question: str, memory: Mapping[str, Any], reason: str) -> None:
    """Print a question, the best result and its score."""
    text = memory["content"]
    if memory.get("predicate"):
        text = f"{memory['subject']}, {memory['predicate']}: {text}"
    print(f"  {question}")
    print(textwrap.fill(text, 90, initial_indent="  → ", subsequent_indent="    "))
    print(f"    ({reason})\n")


def title(text: str) -> None:
    """Print a heading."""
    print(f"\n{text}\n{'─' * len(text)}\n")


@contextmanager
def home_directory(given: Path | None) -> Iterator[Path]:
    """Yield the given home, or a temporary one that is removed at the end."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="butlers-") as directory:
        # Started by root, PostgreSQL runs as another user, who must be able to enter.
        Path(directory).chmod(0o711)
        yield Path(directory)


async def main(given: Path | None) -> None:
    """Run the example."""
    with home_directory(given) as home:
        async with open_memory("general", home=home, actor="Mara") as memory:
            moved = await store_week(memory)
            title("A week of Mara's life")
            await print_counts(memory)
            title("Ten questions, the best result of each, and its score")
            await ask_questions(memory)
            title("The context an agent gets for: Plan Mara's Friday")
            print((await memory.context("Plan Mara's Friday", token_budget=400)).text, end="")
            title("Explain: why Friday?")
            await explain(memory, moved)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="A week of Mara's life.")
    arguments.add_argument("--home", type=Path, help="keep the memories there")
    asyncio.run(main(arguments.parse_args().home))
