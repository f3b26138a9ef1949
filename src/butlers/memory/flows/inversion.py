"""Rules that keep doing harm are turned into warnings against themselves."""

from typing import Any

import structlog

from butlers.db.postgres import Row
from butlers.errors import Unavailable
from butlers.kernel.text import preprocess_text
from butlers.kernel.words import prepared
from butlers.memory.handle import Embedding, Memory
from butlers.memory.model import Event, EventSubject, EventType, Lineage, Maturity
from butlers.memory.policy import maturity
from butlers.memory.store import rules

_log = structlog.get_logger(__name__)


async def invert_waiting(memory: Memory, lineage: Lineage) -> int:
    """Turn every rule that awaits it into a warning; how many were."""
    async with memory.transaction(lineage) as tx:
        waiting = await rules.find_awaiting_inversion(tx)
    inverted = [await invert_if_possible(memory, rule, lineage) for rule in waiting]
    return sum(rule is not None for rule in inverted)


async def invert_if_possible(memory: Memory, rule: Row, lineage: Lineage) -> Row | None:
    """The rule as a warning, or None: it stays waiting while no embedding can be made."""
    try:
        return await _invert(memory, rule, lineage)
    except Unavailable as error:
        _log.warning("rule_inversion_postponed", rule_id=str(rule["id"]), reason=str(error))
        return None


async def _invert(memory: Memory, rule: Row, lineage: Lineage) -> Row | None:
    """The rule as a warning, or None when it changed meanwhile.

    What changes the warning is another harmful mark, and that mark inverts the rule itself.
    """
    warning = maturity.warning(rule["content"], maturity.reasons(rule))
    embedding = await memory.embed(warning, lineage)
    now = memory.now()
    async with memory.transaction(lineage) as tx:
        held = await rules.lock(tx, id=rule["id"], now=now)
        if held is None or not maturity.awaits_inversion(held):
            return None
        if maturity.warning(held["content"], maturity.reasons(held)) != warning:
            return None
        written = _inversion(held, warning, embedding)
        await rules.invert(tx, id=held["id"], now=now, **written)
        [inverted] = await rules.find(tx, ids=[held["id"]], now=now)
        await memory.record(tx, _inverted(held), lineage, now)
    return inverted


def _inversion(held: Row, warning: str, embedding: Embedding) -> dict[str, Any]:
    """What an inversion writes into the rule."""
    metadata = {k: v for k, v in held["metadata"].items() if k != "needs_inversion"}
    return {
        "content": warning,
        "metadata": metadata | {"original_content": held["content"]},
        "embedding": embedding.vector,
        "embedding_version_id": embedding.version_id,
        "searchable": prepared(preprocess_text(warning)),
    }


def _inverted(held: Row) -> Event:
    payload = {
        "from": held["maturity"],
        "to": Maturity.ANTI_PATTERN,
        "original_content": held["content"],
        "reasons": maturity.reasons(held),
    }
    return Event(EventType.RULE_INVERTED, EventSubject.RULE, held["id"], payload)
