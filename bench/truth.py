"""What is told once something was deleted, changed below what depends on it, or never said.

    python -m bench truth

Three sets of 40 cases, each set in a memory of its own with all its cases in it; no language model.

- deletion: a fact and the episode it was drawn from are stored; the fact is forgotten, replaced or
  fades. Right is where the context does not say it, and a recall names it nowhere but marked as
  outdated, behind what holds, never first; what replaced it comes first.
- cascade: a fact depends on another, which is replaced or forgotten. Right is where the dependent
  stands behind the new ground and is marked as in doubt, in recall and in the context.
- absence: something was never said, or was forgotten with its source, or erased. Right is where
  neither recall nor the context says anything about it; that they tell something else of whom the
  question names is no fault.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from bench.lab import laboratory
from butlers.kernel.text import normalise_whitespace
from butlers.memory.flows import context, erase, forget, links, recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.lifecycle.decay_sweep import run_decay_sweep
from butlers.memory.flows.recall import Recalled
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryRef, MemoryType, NewEpisode, NewFact, Permanence
from butlers.memory.policy.erasure import ErasureRequest

Case = dict[str, str]
CASES = Path(__file__).with_name("changes")
LEAST = 0.9
LIMIT, BUDGET = 10, 3_000
_SURE = Permanence.PERMANENT


def main(_: Sequence[str]) -> int:
    """Print the share of right cases of each kind; 1 where one is below nine in ten."""
    return asyncio.run(_main())


async def _main() -> int:
    missed = 0
    async with laboratory() as (memory, _):
        for kind in KINDS:
            cases, wrong = await measure(memory, kind)
            share = 1 - len(wrong) / len(cases)
            print(f"{kind:<10} {share:.1%} of {len(cases)}{'' if share >= LEAST else '  MISSED'}")
            for case, why in wrong:
                print(f"           {case['question']} {why}")
            missed += share < LEAST
    return int(missed > 0)


async def measure(
    memory: Memory, kind: str, every: int = 1
) -> tuple[list[Case], list[tuple[Case, str]]]:
    """The cases of a kind, or every so many of them, and those that went wrong, each with why."""
    told, judged = KINDS[kind]
    lines = (CASES / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()
    cases, lineage = [json.loads(line) for line in lines[::every]], Lineage(f"bench {kind}")
    refs = [await told(memory, case, lineage) for case in cases]
    later = replace(memory, now=lambda: memory.now() + timedelta(days=3))
    for case, ref in zip(cases, refs, strict=True):
        await _change(later, case, ref, lineage)
    await run_decay_sweep(later, lineage)
    whys = [await judged(later, case, ref, lineage) for case, ref in zip(cases, refs, strict=True)]
    return cases, [(case, why) for case, why in zip(cases, whys, strict=True) if why]


async def _tell(memory: Memory, case: Case, lineage: Lineage) -> MemoryRef:
    """A fact, drawn from an episode where there is one; one that is to fade is unsure."""
    episode = None
    if said := case.get("episode"):
        episode = (await remember.store_episode(memory, NewEpisode(said, "bench"), lineage)).id
    fading = case.get("how") == "expire"
    new = NewFact(
        case["subject"],
        case["predicate"],
        case["content"],
        permanence=Permanence.EPHEMERAL if fading else _SURE,
        source_episode_id=episode,
        confidence=0.06 if fading else 1.0,
    )
    return MemoryRef(MemoryType.FACT, (await remember.store_fact(memory, new, lineage)).id)


async def _tell_both(memory: Memory, case: Case, lineage: Lineage) -> MemoryRef:
    """A fact and another that depends on it; the other one."""
    ground = await _tell(memory, case, lineage)
    said = case["who"], case["what"], case["depends"]
    new = NewFact(*said, permanence=_SURE, depends_on=(ground,))
    return MemoryRef(MemoryType.FACT, (await remember.store_fact(memory, new, lineage)).id)


async def _change(memory: Memory, case: Case, ref: MemoryRef, lineage: Lineage) -> None:
    how = case.get("how", "replace" if "instead" in case else "forget")
    if how == "replace":
        said = case["subject"], case["predicate"], case["instead"]
        await remember.store_fact(memory, NewFact(*said, permanence=_SURE), lineage)
    elif how == "forget":
        gone = ref if "who" not in case else await _ground(memory, ref, lineage)
        with_sources = "about" in case
        await forget.forget_memory(memory, gone.type, gone.id, lineage, with_sources=with_sources)
    elif how == "erase":
        await erase.erase(memory, ErasureRequest(about=case["subject"]), lineage)


async def _ground(memory: Memory, ref: MemoryRef, lineage: Lineage) -> MemoryRef:
    linked = await links.get_links(memory, ref.type, ref.id, "outgoing", lineage)
    return MemoryRef(MemoryType.FACT, UUID(linked[0]["target_id"]))


async def _asked(memory: Memory, case: Case, lineage: Lineage) -> tuple[list[Recalled], str]:
    """What a recall tells, and the block of a context."""
    question = case["question"]
    told = await recall.recall(memory, CandidateQuery(question), LIMIT, lineage, counted=False)
    built = await context.build_context(
        memory, context.ContextQuery(question, "bench", BUDGET), lineage, counted=False
    )
    return told, built.text


async def _deleted(memory: Memory, case: Case, ref: MemoryRef, lineage: Lineage) -> str:
    told, block = await _asked(memory, case, lineage)
    if _says(block, case["gone"]):
        return "the context says it"
    if any(_says(_text(one), case["gone"]) and not one.row.get("outdated_by") for one in told):
        return "it is recalled as if it held"
    if told and _says(_text(told[0]), case["gone"]):
        return "its source comes first"
    if "instead" not in case:
        return ""
    first = told and told[0].row["content"] == case["instead"]
    return "" if first else "what replaced it is not first"


async def _doubted(memory: Memory, case: Case, ref: MemoryRef, lineage: Lineage) -> str:
    told, block = await _asked(memory, case, lineage)
    places = {one.ref: place for place, one in enumerate(told)}
    contents = [one.row["content"] for one in told]
    if ref in places and not told[places[ref]].row["in_doubt"]:
        return "it is recalled as if it stood"
    lines = [line for line in block.splitlines() if _says(line, case["depends"])]
    if any("in doubt)" not in line for line in lines):
        return "the context tells it as if it stood"
    if "instead" not in case:
        return ""
    if case["instead"] not in contents:
        return "the new ground is not recalled"
    behind = contents.index(case["instead"]) < places.get(ref, len(told))
    return "" if behind else "it stands before the new ground"


async def _absent(memory: Memory, case: Case, ref: MemoryRef, lineage: Lineage) -> str:
    told, block = await _asked(memory, case, lineage)
    if any(_says(_text(one), case["about"]) for one in told):
        return "it is recalled"
    return "the context says it" if _says(block, case["about"]) else ""


def _text(one: Recalled) -> str:
    return f"{one.row.get('subject', '')} {one.row.get('predicate', '')} {one.row['content']}"


def _says(text: str, what: str) -> bool:
    return normalise_whitespace(what).casefold() in normalise_whitespace(text).casefold()


Told = Callable[[Memory, Case, Lineage], Awaitable[MemoryRef]]
Judged = Callable[[Memory, Case, MemoryRef, Lineage], Awaitable[str]]
KINDS: dict[str, tuple[Told, Judged]] = {
    "deletion": (_tell, _deleted),
    "cascade": (_tell_both, _doubted),
    "absence": (_tell, _absent),
}
