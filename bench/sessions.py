"""What sessions leave: how much of what users state is kept, and what becomes a fact or a rule.

`python -m bench sessions` reads the labelled turns of `stores/sessions`, puts each store's turns
among others into a transcript as its program writes it, tool output included, and compares the
essence and the candidates with the labels. No database and no model is needed.
"""

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.session_turns import ANSWERS, ASIDES, OUTPUTS, PASTED, REQUESTS, THINGS
from butlers.kernel.text import normalise_whitespace
from butlers.memory.model import NewRule
from butlers.sessions import essence
from butlers.sessions.spoken import candidates
from butlers.sessions.transcripts import parse

STORES = Path(__file__).parent / "stores" / "sessions"
HALVES = ("dev", "heldout", "fresh")
LONG_TURNS = 50
LEAST_KEPT, LEAST_PRECISION, MOST_SHARE = 0.95, 0.90, 0.10


@dataclass(frozen=True, slots=True)
class Turn:
    """A user's turn, what of it has to be kept whole, and what is to become of it."""

    text: str
    keep: tuple[str, ...] = ()
    learn: frozenset[tuple[str, str]] = frozenset()


@dataclass(slots=True)
class Figures:
    """What was counted over some sessions."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=dict)

    def share(self, part: str, whole: str) -> float:
        """How much of one count another is."""
        return self.counts[part] / max(1, self.counts[whole])

    @property
    def kept(self) -> float:
        """The share of statements that the essence has whole."""
        return self.share("kept", "statements")

    @property
    def precision(self) -> float:
        """The share of candidates that a user stated."""
        return self.share("right", "candidates")

    @property
    def recall(self) -> float:
        """The share of what a user stated that became a candidate."""
        return self.share("right", "to learn")

    @property
    def longest_share(self) -> float:
        """The largest share that the essence of a long session has of its transcript."""
        return max(self.shares.values(), default=0.0)


def stores(half: str) -> Iterator[tuple[dict[str, Any], list[Turn]]]:
    """Each store of a half with its turns, those with labels among others.

    Every second turn with labels comes at the end of a long one, where its beginning is not enough.
    """
    labelled = _lines(f"{half}.jsonl")
    for store in _lines("sessions.jsonl"):
        if store["half"] == half:
            filler = _filler(store["language"], random.Random(store["store"]))
            own = {one["place"]: _turn(one) for one in labelled if one["store"] == store["store"]}
            for place in sorted(own)[::2]:
                before = " ".join(next(filler) for _ in range(8)).partition("\n")[0]
                own[place] = replace(own[place], text=f"{before}\n\n{own[place].text}")
            yield store, [own.get(place) or Turn(next(filler)) for place in range(store["turns"])]


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (STORES / name).read_text("utf-8").splitlines()]


def _turn(given: dict[str, Any]) -> Turn:
    learn = {(kind, text) for kind in ("facts", "rules") for text in given.get(kind, ())}
    keep = given.get("keep") or [text for _, text in sorted(learn)]
    return Turn(given["text"], tuple(keep), frozenset(learn))


def _filler(language: str, chance: random.Random) -> Iterator[str]:
    """Turns as people type them while they work: requests, asides, now and then a paste."""
    while True:
        kind = chance.random()
        words = REQUESTS[language] if kind < 0.75 else ASIDES[language]
        text = chance.choice(words).format(*chance.sample(THINGS, 2))
        yield f"{text}\n\n{chance.choice(PASTED)}" if kind > 0.95 else text


def transcript(store: dict[str, Any], turns: Sequence[Turn]) -> str:
    """The session as its program would have written it down."""
    chance = random.Random(f"{store['store']} tools")
    write = _claude if store["program"] == "claude" else _codex
    return "\n".join(
        line for place, turn in enumerate(turns) for line in write(place, turn.text, chance)
    )


def _worked(chance: random.Random) -> Iterator[tuple[str, str]]:
    """What an agent does for one request: calls of tools with what they answer, then its words."""
    for _ in range(chance.randint(1, 4)):
        lines = chance.choices(OUTPUTS, k=chance.randint(5, 60))
        yield chance.choice(("Bash", "Read", "Grep", "Edit")), "\n".join(lines)
    yield "", " ".join(chance.sample(ANSWERS, 3)).format(*chance.sample(THINGS, 2))


def _claude(place: int, text: str, chance: random.Random) -> Iterator[str]:
    at = f"2026-03-{1 + place // 60:02}T{9 + place % 60 // 10:02}:{place % 10 * 6:02}:00.000Z"
    common = {
        "parentUuid": f"{place:08}-0000-4000-8000-000000000000",
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/ann/work/project",
        "sessionId": "00000000-0000-4000-8000-000000000000",
        "version": "2.1.0",
        "gitBranch": "main",
        "timestamp": at,
    }

    def line(role: str, content: Any, **more: Any) -> str:
        message = {"role": role, "content": content}
        written = {**common, "type": role, "message": message, **more}
        return json.dumps(written, ensure_ascii=False)

    yield line("user", text)
    for tool, told in _worked(chance):
        if not tool:
            yield line("assistant", [{"type": "text", "text": told}])
            continue
        call = f"toolu_{place:06}{chance.randrange(10**9):09}"
        used = {"type": "tool_use", "id": call, "name": tool, "input": {"command": "run"}}
        result = {"type": "tool_result", "tool_use_id": call, "content": told}
        yield line("assistant", [used])
        yield line("user", [result], toolUseResult={"stdout": told, "stderr": ""})


def _codex(place: int, text: str, chance: random.Random) -> Iterator[str]:
    at = f"2026-03-{1 + place // 60:02}T{9 + place % 60 // 10:02}:{place % 10 * 6:02}:00.000Z"

    def line(payload: dict[str, Any]) -> str:
        record = {"timestamp": at, "type": "response_item", "payload": payload}
        return json.dumps(record, ensure_ascii=False)

    def message(role: str, kind: str, said: str) -> str:
        content = [{"type": kind, "text": said}]
        return line({"type": "message", "role": role, "content": content})

    yield message("user", "input_text", text)
    for tool, told in _worked(chance):
        if not tool:
            yield message("assistant", "output_text", told)
            continue
        call = f"call_{place:06}{chance.randrange(10**9):09}"
        yield line({"type": "function_call", "name": tool, "call_id": call, "arguments": "{}"})
        yield line({"type": "function_call_output", "call_id": call, "output": told})


def measure(half: str) -> Figures:
    """What comes of the sessions of one half."""
    figures = Figures()
    for store, turns in stores(half):
        written = transcript(store, turns)
        parts = essence.of_transcript(parse(written))
        text = normalise_whitespace(" ".join(part.text for part in parts))
        _count_kept(figures, store["store"], turns, text)
        _count_learned(figures, store["store"], turns, parts)
        figures.counts["parts"] += len(parts)
        if store["turns"] >= LONG_TURNS:
            length = sum(len(part.text) for part in parts)
            figures.shares[store["store"]] = length / len(written)
    return figures


def _count_kept(figures: Figures, store: str, turns: Sequence[Turn], text: str) -> None:
    for turn in turns:
        for sentence in turn.keep:
            figures.counts["statements"] += 1
            if normalise_whitespace(sentence) in text:
                figures.counts["kept"] += 1
            else:
                figures.faults.append(f"{store}: not kept: {sentence}")


def _count_learned(
    figures: Figures, store: str, turns: Sequence[Turn], parts: Sequence[essence.Essence]
) -> None:
    wanted = {one for turn in turns for one in turn.learn}
    stated = [one for part in parts for one in part.statements]
    made = {
        ("rules" if isinstance(one, NewRule) else "facts", one.content)
        for one in candidates(stated, "general", store, {})
    }
    figures.counts["candidates"] += len(made)
    figures.counts["to learn"] += len(wanted)
    figures.counts["right"] += len(made & wanted)
    figures.faults += [
        f"{store}: wrongly in {kind}: {text}" for kind, text in sorted(made - wanted)
    ]
    figures.faults += [f"{store}: not in {kind}: {text}" for kind, text in sorted(wanted - made)]


def main(options: Sequence[str]) -> int:
    """Print the figures of both halves; the exit code says whether the goals are met."""
    failed = 0
    for half in HALVES:
        figures = measure(half)
        counts = figures.counts
        print(f"\n{half}: {counts['statements']} statements, {counts['parts']} parts")
        print(f"  kept whole       {figures.kept:6.1%}  (at least {LEAST_KEPT:.0%})")
        print(f"  precision        {figures.precision:6.1%}  (at least {LEAST_PRECISION:.0%})")
        print(f"  recall           {figures.recall:6.1%}")
        for store, share in figures.shares.items():
            print(f"  {store:16} {share:6.1%}  of its transcript (at most {MOST_SHARE:.0%})")
        for fault in figures.faults:
            print(f"  - {fault}")
        failed += figures.kept < LEAST_KEPT or figures.precision < LEAST_PRECISION
        failed += figures.longest_share > MOST_SHARE
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
