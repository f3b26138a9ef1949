"""Erase what names a person, came from a session, or belongs to a tenant.

What is erased is selected in the transaction that erases it. Rows are deleted with their words and
vectors; events stay, with their texts replaced by hashes (through one guarded function).
"""

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from butlers.db.postgres import Transaction
from butlers.errors import NotFound
from butlers.kernel.mentions import Mentions
from butlers.memory.flows.session_parts import session_key
from butlers.memory.handle import Memory
from butlers.memory.model import Event, EventType, Lineage
from butlers.memory.policy import erasure
from butlers.memory.policy.erasure import ErasureRequest, Selection
from butlers.memory.store import proposals, rows
from butlers.memory.store.rows import KINDS

_BY_NAME = {kind.name: kind for kind in KINDS}
# Rules before what they were drawn from, facts before whom they are about; with facts go conflicts.
_ORDER = (
    "proposal", "rule_application", "rule", "fact", "episode", "binned_episode", "entity",
    "project", "predicate",
)  # fmt: skip
_REWORDED = {
    "entity": (rows.reword_entity, ("aliases", "metadata")),
    "rule": (rows.reword_rule, ("tags", "metadata")),
    "project": (rows.reword_project, ("name", "keys", "places")),
}


async def preview(memory: Memory, wanted: ErasureRequest, lineage: Lineage) -> Selection:
    """Return what would be erased. Nothing changes."""
    async with memory.transaction(lineage, snapshot=True) as tx:
        return await _select(tx, wanted)


async def erase(memory: Memory, wanted: ErasureRequest, lineage: Lineage) -> Selection:
    """Erase all of it or nothing, and return what was erased. Records `memory_erased`."""
    async with memory.begin(lineage) as work:
        selection = await _select(work.tx, wanted)
        if selection.counts:
            await _erase(work.tx, selection, wanted)
            payload = {"counts": selection.counts, "event_ids": selection.events}
            await work.record(Event(EventType.MEMORY_ERASED, None, payload))
    memory.counts.delete(lineage.tenant_id)
    memory.profiles.delete(lineage.tenant_id)
    return selection


async def _erase(tx: Transaction, selection: Selection, wanted: ErasureRequest) -> None:
    for kind in _ORDER:
        ids = selection.ids(kind)
        if kind == "predicate":
            await rows.erase_predicates(tx, keys=ids)
        elif ids:
            await rows.erase(tx, kind=_BY_NAME[kind].table, keys=ids)
    for (kind, id), row in selection.reworded.items():
        await _REWORDED[kind][0](tx, id=id, **row)
    await rows.erase_events(tx, ids=list(map(UUID, selection.events)))
    await rows.erase_names(tx, names=list(selection.names))
    if wanted.everything:
        await proposals.delete_claims(tx, before=None)


async def _select(tx: Transaction, wanted: ErasureRequest) -> Selection:
    entities = [row async for row, _ in rows_of(tx, "entity")]
    names, persons = erasure.names_of(wanted, entities)
    if wanted.entity_id is not None and not persons:
        raise NotFound(f"entity: there is no entity {wanted.entity_id}")
    if wanted.everything:
        names = tuple(name for row in entities for name in (row["canonical_name"], *row["aliases"]))
    selection = Selection(Mentions(names), names)
    await _selectrows_of(tx, wanted, selection, persons)
    await _select_events(tx, wanted, selection)
    return selection


async def _selectrows_of(
    tx: Transaction, wanted: ErasureRequest, selection: Selection, persons: set[str]
) -> None:
    others: dict[tuple[str, str], Any] = {}
    for kind in _ORDER:
        async for row, written in rows_of(tx, kind):
            id = row[_BY_NAME[kind].key]
            if wanted.keeps(id):
                continue
            why = erasure.reason(wanted, kind, row, selection.mentions, persons)
            if why:
                selection.add(kind, id, why, row, written)
                continue
            others[kind, id] = row
            if kind in _REWORDED:
                _reword(selection, kind, id, row)
    links = [
        (row["source_type"], str(row["source_id"]), str(row["target_id"]))
        for row in await rows.find_links(tx)
    ]
    erased = {id for kind, id in selection.found if kind in erasure.MEMORIES}
    for key, source in erasure.drawn(others, links, erased):
        row = others[key]
        selection.reworded.pop(key, None)
        selection.add(*key, f"drawn from {source}", row, json.dumps(row, sort_keys=True))


def _reword(selection: Selection, kind: str, id: str, row: dict[str, Any]) -> None:
    """Keep a row that only mentions a person, without the name."""
    columns = {name: row[name] for name in _REWORDED[kind][1]}
    reworded = erasure.without_names(columns, selection.mentions)
    if reworded != columns:
        selection.reworded[kind, id] = reworded


async def _select_events(tx: Transaction, wanted: ErasureRequest, selection: Selection) -> None:
    erased = {id for _, id in selection.found}
    of_session = session_key(wanted.session) if wanted.session else None
    async for event, _ in rows_of(tx, "event"):
        memory_id, payload = event["memory_id"], event["payload"]
        if memory_id and wanted.keeps(memory_id):
            continue
        is_about = memory_id in erased or (of_session and event["request_id"] == of_session)
        if wanted.everything or is_about or selection.mentions.in_value(payload):
            selection.events.append(event["id"])


async def rows_of(tx: Transaction, kind: str) -> AsyncIterator[tuple[dict[str, Any], str]]:
    """Stream the rows of a kind, parsed and as text."""
    async for row in tx.stream(_BY_NAME[kind].rows.query):
        yield json.loads(row["row"]), row["row"]
