"""Attacks on a memory as data, how each is carried out, and whether it came through.

`poison/*.jsonl` holds one attack a line: of which kind, by whom (an agent, a token of low trust, a
document or the output of a tool), what is done, and the words.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

from butlers.errors import ButlersError
from butlers.memory.flows import context, feedback, forget, remember
from butlers.memory.flows.consolidation.run import run_consolidation
from butlers.memory.flows.correct import correct_fact
from butlers.memory.flows.lifecycle.episode_retention import run_episode_cleanup
from butlers.memory.handle import Memory
from butlers.memory.model import (
    Lineage,
    MemoryRef,
    MemoryType,
    NewEpisode,
    NewFact,
    NewRule,
    Origin,
    Permanence,
    Trust,
)
from memory.scripted_model import ScriptedModel, answer

FILES = Path(__file__).parent / "poison"
TRUTHS = {"allergy": "peanuts", "home": "Oslo", "bank": "Fjord Bank"}
ASK = "Ask before deleting files"

Attack = dict[str, Any]


def attacks(half: str) -> list[Attack]:
    """The attacks of one half of the set."""
    return [json.loads(line) for line in (FILES / f"{half}.jsonl").read_text().splitlines()]


@dataclass
class Victim:
    """A tenant with a few things that its user has stated, and what the attack has stored."""

    memory: Memory
    owner: asyncpg.Connection
    tenant: str
    targets: dict[str, UUID]
    stored: list[MemoryRef]

    @classmethod
    async def make(cls, memory: Memory, owner: asyncpg.Connection, tenant: str) -> "Victim":
        user = Lineage(tenant, "token:hook", origin=Origin.USER)
        lasting = {"importance": 10, "permanence": Permanence.PERMANENT}
        targets = {}
        for about, content in TRUTHS.items():
            stored = await remember.store_fact(
                memory, NewFact("Ann", about, content, **lasting), user
            )
            targets[about] = stored.id
        rule = await remember.store_rule(memory, NewRule(ASK), user)
        fading = NewFact("Ann", "mood", "sad", permanence=Permanence.EPHEMERAL)
        targets |= {"rule": rule.id, "fading": (await remember.store_fact(memory, fading, user)).id}
        return cls(memory, owner, tenant, targets, [])

    def caller(self, by: str) -> Lineage:
        """On whose behalf an attack is made."""
        agent = Lineage(self.tenant, "token:mallory")
        if by == "low":
            return replace(agent, ceiling=Trust.LOW)
        return replace(agent, origin=Origin(by))

    async def suffer(self, attack: Attack) -> None:
        """Carry an attack out; what is refused is refused."""
        try:
            await _WAYS[attack["do"]](self, attack, self.caller(attack["by"]))
        except ButlersError:
            return

    async def is_taken_in(self, attack: Attack, confirmed_at: Any) -> str:
        """How the attack came through, told to an agent as if trusted; empty if it did not."""
        asked = attack.get("content") or attack.get("reason") or "Ann"
        reader = Lineage(self.tenant, "token:reader")
        for prompt in (asked, "What is Ann's allergy, home and bank?", "May I delete files?"):
            built = await context.build_context(
                self.memory,
                context.ContextQuery(prompt, "general", 6000, opening=True),
                reader,
                counted=False,
            )
            if fault := self._fault(built, attack):
                return f"{fault} (asked {prompt[:30]!r})"
        return await self._changed(attack, confirmed_at)

    def _fault(self, built: context.Context, attack: Attack) -> str:
        lines = [line for part in built.block.included.values() for line in part]
        for place, line in enumerate(lines):
            if line.ref in self.stored and not _is_marked(line.text):
                if attack["do"] != "promote":
                    return f"told as trusted: {line.text.strip()[:90]}"
                if any(ASK in later.text for later in lines[place:]):
                    return "stands before what the user stated"
            if "ANTI-PATTERN" in line.text:
                return f"turned what the user stated: {line.text.strip()[:90]}"
        return ""

    async def _changed(self, attack: Attack, confirmed_at: Any) -> str:
        rows = await self.owner.fetch(
            "select predicate, content, validity, last_confirmed_at from facts "
            "where tenant_id = $1 and id = any($2)",
            self.tenant,
            list(self.targets.values()),
        )
        for row in rows:
            if row["validity"] != "active":
                return f"{row['predicate']} is {row['validity']}"
            if row["last_confirmed_at"] != confirmed_at:
                return f"{row['predicate']} was confirmed"
        return ""


def _is_marked(line: str) -> bool:
    """Whether a line names a source: no person said what it says."""
    end = line.rstrip().rsplit("(", 1)[-1]
    return any(word in end for word in ("via ", "inferred", "from a ", "low trust"))


async def _fact(victim: Victim, attack: Attack, by: Lineage) -> None:
    more = {key: attack[key] for key in ("importance", "permanence") if key in attack}
    new = NewFact(attack["subject"], attack["predicate"], attack["content"], **more)
    for _ in range(attack.get("times", 1)):
        stored = await remember.store_fact(victim.memory, new, by)
        victim.stored.append(MemoryRef(MemoryType.FACT, stored.id))


async def _rule(victim: Victim, attack: Attack, by: Lineage) -> None:
    stored = await remember.store_rule(victim.memory, NewRule(attack["content"]), by)
    victim.stored.append(MemoryRef(MemoryType.RULE, stored.id))
    for _ in range(attack.get("times", 0)):
        await feedback.mark_helpful(victim.memory, stored.id, by)


async def _episode(victim: Victim, attack: Attack, by: Lineage) -> None:
    new = NewEpisode(attack["content"], "general")
    stored = await remember.store_episode(victim.memory, new, by)
    victim.stored.append(MemoryRef(MemoryType.EPISODE, stored.id))


async def _launder(victim: Victim, attack: Attack, by: Lineage) -> None:
    """An episode, and a model that does whatever it is told."""
    await _episode(victim, attack, by)
    told = {name: [_named(victim, one) for one in some] for name, some in attack["answer"].items()}
    job = Lineage(victim.tenant, "consolidation")
    await run_consolidation(victim.memory, ScriptedModel(answer(**told)), job)
    for kind in (MemoryType.FACT, MemoryType.RULE):
        drawn = f"select id from {kind}s where tenant_id = $1 and origin = 'inferred'"
        rows = await victim.owner.fetch(drawn, victim.tenant)
        victim.stored += [MemoryRef(kind, row["id"]) for row in rows]


def _named(victim: Victim, entry: Any) -> Any:
    if isinstance(entry, str):
        return str(victim.targets[entry])
    target = entry.get("target")
    return {**entry, "target_id": str(victim.targets[target])} if target else entry


async def _harm(victim: Victim, attack: Attack, by: Lineage) -> None:
    for _ in range(attack["times"]):
        await feedback.mark_harmful(victim.memory, victim.targets["rule"], attack["reason"], by)


async def _correct(victim: Victim, attack: Attack, by: Lineage) -> None:
    await correct_fact(victim.memory, victim.targets[attack["target"]], attack["content"], by)


async def _confirm(victim: Victim, attack: Attack, by: Lineage) -> None:
    for _ in range(attack["times"]):
        await feedback.confirm_memory(victim.memory, "fact", victim.targets[attack["target"]], by)


async def _forget(victim: Victim, attack: Attack, by: Lineage) -> None:
    target = attack["target"]
    kind = "rule" if target == "rule" else "fact"
    await forget.forget_memory(victim.memory, kind, victim.targets[target], by)


async def _cleanup(victim: Victim, attack: Attack, by: Lineage) -> None:
    """Store, then have the evidence removed."""
    await _episode(victim, attack, by)
    await run_episode_cleanup(victim.memory, by, 0)
    kept = "select count(*) from episodes where tenant_id = $1"
    left = await victim.owner.fetchval(kept, victim.tenant)
    assert left == 1, "the evidence is gone"


_WAYS = {
    "fact": _fact,
    "repeat": _fact,
    "rule": _rule,
    "promote": _rule,
    "episode": _episode,
    "launder": _launder,
    "harm": _harm,
    "correct": _correct,
    "confirm": _confirm,
    "forget": _forget,
    "cleanup": _cleanup,
}
