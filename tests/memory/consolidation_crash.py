"""A process that consolidates and is killed at a chosen step; the parent says which, line by line.

    python consolidation_crash.py RUNTIME_DSN run|agent    stdin: STEP INSTANT
                                                            stdout: killed | STEPS

Step 0 kills nothing and prints how many steps there were. A step is every statement, every end of
a transaction on both sides of its commit, the session on both sides of its answer, the embedding.
Each run is a fork of its own, so that the imports are paid for once.
"""

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from butlers.db.postgres import Access, Database, Transaction
from butlers.memory.flows.consolidation.answer import claim_episodes, submit
from butlers.memory.flows.consolidation.run import run_consolidation
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from conftest import ToyEmbedder
from memory.crash_story import story
from memory.scripted_model import ScriptedModel

STATEMENTS = ("fetch", "fetch_one", "fetch_value", "execute")


class Fate:
    """Counts steps and kills at the chosen one."""

    def __init__(self, step: int) -> None:
        self.step, self._steps, self.seen = step, itertools.count(1), 0

    def tick(self) -> None:
        self.seen = next(self._steps)
        if self.seen == self.step:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def ticking(*given: Any, **named: Any) -> Any:
            self.tick()
            return await function(*given, **named)

        return ticking

    def around_commits(self, transaction: Callable[..., Any]) -> Callable[..., Any]:
        @asynccontextmanager
        async def ticking(
            database: Database, *whose: str, **options: bool
        ) -> AsyncIterator[Transaction]:
            async with transaction(database, *whose, **options) as tx:
                yield tx
                self.tick()
            self.tick()

        return ticking


class FatedModel(ScriptedModel):
    """A session that may be killed before and after its answer."""

    def __init__(self, fate: Fate) -> None:
        super().__init__(story)
        self.fate = fate

    async def complete(self, prompt: str, **options: Any) -> Any:
        self.fate.tick()
        answered = await super().complete(prompt, **options)
        self.fate.tick()
        return answered


async def by_an_agent(memory: Memory, model: FatedModel, lineage: Lineage) -> None:
    """Claim, read with a model of one's own, and submit."""
    claim = await claim_episodes(memory, 10, lineage)
    said = json.loads((await model.complete(claim.prompt)).text)
    await submit(memory, claim.claim_id, said, lineage)


HOW = {"run": run_consolidation, "agent": by_an_agent}


async def consolidate(dsns: str, step: int, at: datetime) -> int:
    fate, toy = Fate(step), ToyEmbedder()
    for name in STATEMENTS:
        setattr(Transaction, name, fate.before(getattr(Transaction, name)))
    Database.transaction = fate.around_commits(Database.transaction)  # type: ignore[method-assign]
    toy.embed_batch_async = fate.before(toy.embed_batch_async)  # type: ignore[method-assign]
    database = await Database.open(Access(*dsns.split()), pool_max=2)
    memory = Memory(database, lambda: toy, "general", now=lambda: at)
    await HOW[sys.argv[2]](memory, FatedModel(fate), Lineage("acme", "jobs"))
    await database.close()
    return fate.seen


def main() -> None:
    for line in sys.stdin:
        step, instant = line.split()
        child = os.fork()
        if child == 0:
            seen = asyncio.run(consolidate(sys.argv[1], int(step), datetime.fromisoformat(instant)))
            print(seen, flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            print("killed", flush=True)
        elif status != 0:
            print("failed", flush=True)


if __name__ == "__main__":
    main()
