"""Whole months of sessions: what the hooks give an agent afterwards, and what recall finds.

`python -m bench months` lives through the months of `stores/months` with the real model, no
language model, and asks their questions as prompts of new sessions. `--half unread` asks those that
were kept aside while this was built; `--lines FILE` writes every line given at a prompt for judging
by hand; `--month a` takes one month.
"""

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.lab import CachedEmbedder
from bench.replay import Delivered, Replay, replayed
from butlers.embedding import get_embedding_engine
from butlers.kernel.token_count import count_tokens

STORES = Path(__file__).parent / "stores" / "months"
MONTHS = ("a", "b")
LEAST_DELIVERED, LEAST_RECALLED, LEAST_PRESENT = 0.85, 0.95, 0.95
MOST_START, MOST_PROMPT = 400, 250


class MonthFigures:
    """What was counted over the questions of some months."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.tokens: dict[str, list[int]] = {"start": [], "prompt": []}
        self.lines: list[dict[str, Any]] = []
        self.faults: list[str] = []

    def share(self, part: str, whole: str) -> float:
        """Return one count as a share of another."""
        return self.counts[part] / max(1, self.counts[whole])

    def report(self) -> Iterator[str]:
        """Describe the figures, each beside its goal."""
        counts = self.counts
        yield (
            f"answers delivered  {self.share('delivered', 'questions'):6.1%} of "
            f"{counts['questions']} (goal {LEAST_DELIVERED:.0%}); by the prompt "
            f"{self.share('by prompt', 'questions'):.1%}, silent {counts['silent']}"
        )
        recalled, present = self.share("recalled", "questions"), self.share("present", "changed")
        yield f"recall@5           {recalled:6.1%} (goal {LEAST_RECALLED:.0%})"
        yield f"mid-answers found  {self.share('mid found', 'mid'):6.1%} of {counts['mid']}"
        yield f"changed, present   {present:6.1%} of {counts['changed']} (goal {LEAST_PRESENT:.0%})"
        yield f"acknowledgements that got something: {counts['acks given']} of {counts['acks']}"
        given, foreign = counts["foreign given"], counts["foreign"]
        yield f"foreign prompts that got something:  {given} of {foreign}"
        for name, some in self.tokens.items():
            yield f"tokens, {name}: median {median(some or [0]):.0f}, most {max(some or [0])}"

    @property
    def is_met(self) -> bool:
        """Whether every goal is reached."""
        return (
            self.share("delivered", "questions") >= LEAST_DELIVERED
            and self.share("recalled", "questions") >= LEAST_RECALLED
            and self.share("present", "changed") >= LEAST_PRESENT
            and not self.counts["acks given"]
            and max(self.tokens["start"], default=0) <= MOST_START
            and max(self.tokens["prompt"], default=0) <= MOST_PROMPT
        )


def _lines(name: str, half: str = "all") -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (STORES / name).read_text("utf-8").splitlines() if line]
    return [row for row in rows if half == "all" or row.get("half", half) == half]


def has_answer(text: str, groups: Sequence[Sequence[str]]) -> bool:
    """Whether a text has one of the alternatives of each group."""
    return all(any(word.lower() in text.lower() for word in words) for words in groups)


def is_present(text: str, question: Mapping[str, Any]) -> bool:
    """Whether a text gives the present state: the new value, the old one at most as past."""
    current = "\n".join(line for line in text.splitlines() if "until " not in line)
    return has_answer(current, question["answer"]) and not any(
        old.lower() in current.lower() for old in question.get("old", ())
    )


async def measure(month: str, half: str, figures: MonthFigures) -> None:
    """Live through a month, then ask its questions."""
    embedder = CachedEmbedder(get_embedding_engine())
    async with replayed(_lines(f"month_{month}.jsonl"), embedder) as replay:
        for question in _lines(f"questions_{month}.jsonl", half):
            delivered = await replay.ask(question["project"], question["prompt"])
            recalled = await replay.recall(question["project"], question["prompt"])
            _count(figures, question, delivered, "\n".join(recalled))
        await _count_idle(figures, replay, month, half)


def _count(
    figures: MonthFigures, question: Mapping[str, Any], delivered: Delivered, recalled: str
) -> None:
    counts, answer = figures.counts, question["answer"]
    counts["questions"] += 1
    by_prompt = has_answer(delivered.prompt, answer)
    is_delivered = by_prompt or has_answer(delivered.text, answer)
    counts["by prompt"] += by_prompt
    counts["delivered"] += is_delivered
    counts["silent"] += not delivered.prompt
    counts["recalled"] += (found := has_answer(recalled, answer))
    if question["in_turn"] == "agent_mid":
        counts["mid"] += 1
        counts["mid found"] += found
    if question["kind"] == "changed":
        counts["changed"] += 1
        counts["present"] += is_present(delivered.text, question)
    figures.tokens["start"].append(count_tokens(delivered.start))
    figures.tokens["prompt"].append(count_tokens(delivered.prompt))
    if not is_delivered or not found:
        why = "not delivered" if not is_delivered else "not recalled"
        figures.faults.append(f"{question['id']} {why}: {question['prompt'][:90]} {answer}")
    for line in delivered.prompt.splitlines():
        if line.startswith("- "):
            figures.lines.append({**question, "line": line})


async def _count_idle(figures: MonthFigures, replay: Replay, month: str, half: str) -> None:
    """Count what acknowledgements and prompts about something else get."""
    projects = sorted({session["project"] for session in _lines(f"month_{month}.jsonl")})
    for number, ack in enumerate(_lines(f"acks_{month}.jsonl", half)):
        delivered = await replay.ask(projects[number % len(projects)], ack["text"])
        figures.counts["acks"] += 1
        figures.counts["acks given"] += bool(delivered.prompt)
    for foreign in _lines(f"foreign_{month}.jsonl", half):
        delivered = await replay.ask(foreign["project"], foreign["prompt"])
        figures.counts["foreign"] += 1
        figures.counts["foreign given"] += bool(delivered.prompt)
        figures.tokens["prompt"].append(count_tokens(delivered.prompt))


def main(options: Sequence[str]) -> int:
    """Print the figures; the exit code says whether the goals are met."""
    parser = argparse.ArgumentParser(prog="python -m bench months")
    parser.add_argument("--half", choices=("dev", "unread", "all"), default="all")
    parser.add_argument("--month", choices=MONTHS)
    parser.add_argument("--lines", type=Path)
    chosen = parser.parse_args(options)
    figures = MonthFigures()
    for month in [chosen.month] if chosen.month else MONTHS:
        asyncio.run(measure(month, chosen.half, figures))
    print("\n".join(figures.report()))
    print("\n".join(f"- {fault}" for fault in figures.faults))
    if chosen.lines:
        rows = (json.dumps(row, ensure_ascii=False) for row in figures.lines)
        chosen.lines.write_text("\n".join(rows), "utf-8")
    return int(not figures.is_met)
