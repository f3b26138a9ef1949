"""Export a tenant's memory row by row, and import it again."""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Any
from uuid import UUID

from butlers.db.driver_errors import translated_errors
from butlers.db.postgres import Transaction
from butlers.errors import ButlersError, Conflict, IntegrityViolation, InvalidInput, NotFound
from butlers.kernel.text import prepared, preprocess_text
from butlers.memory.flows.erase import preview, rows_of
from butlers.memory.flows.vectors import OnProgress, embed_missing, move_into_rows, vector_job
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, VersionState
from butlers.memory.policy import erasure
from butlers.memory.policy.erasure import ErasureRequest, Selection
from butlers.memory.store import embeddings, rows
from butlers.memory.store.rows import KINDS, RowKind

IMPORT = "import"
"""The actor of an import: the only one that may import events."""
BATCH = 200
"""Rows imported by one statement."""
_BY_NAME = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class ImportLine:
    """A row to import: its line in the file, its kind, and its JSON, parsed and as written."""

    number: int
    kind: str
    row: dict[str, Any]
    written: str


@dataclass(slots=True)
class Brought:
    """How many rows of each kind were imported, and how many existed already."""

    stored: dict[str, int]
    known: dict[str, int]


async def columns(memory: Memory, lineage: Lineage) -> dict[str, list[str]]:
    """Return the exported columns of each kind of row."""
    async with memory.transaction(lineage) as tx:
        return {kind.name: await rows.columns_of(tx, kind=kind.table) for kind in KINDS}


async def export_rows(memory: Memory, lineage: Lineage) -> AsyncIterator[tuple[str, str]]:
    """Stream every row as its kind and JSON, from one snapshot, in a fixed order."""
    async with memory.transaction(lineage, snapshot=True) as tx:
        for kind in KINDS:
            async for row in tx.stream(kind.rows.query):
                yield kind.name, row["row"]


# The columns by which a row of an export refers to another, and those of rows between others.
_REFERENCES = (
    "entity_id", "source_episode_id", "supersedes_id", "past_by", "rule_id", "moved_to", "scope",
    "butler", "predicate",
)  # fmt: skip
_ENDS: dict[str, tuple[str, ...]] = {
    "link": ("source_id", "target_id"), "conflict": ("newer_id", "older_id"),
    "rule_application": ("rule_id",),
}  # fmt: skip


async def find_about(memory: Memory, about: str, lineage: Lineage) -> Selection:
    """Find what names a person or thing, given by name, alias or entity id.

    Conflict with the candidates if several entities have the name, NotFound if nothing names it.
    """
    with suppress(ValueError):
        return await preview(memory, ErasureRequest(entity_id=UUID(about)), lineage)
    id = await _entity_called(memory, about, lineage)
    wanted = ErasureRequest(entity_id=id) if id else ErasureRequest(about=about)
    selection = await preview(memory, wanted, lineage)
    if not selection.counts:
        raise NotFound(f"about: nothing names {about!r:.60}; give another name, or an entity id")
    return selection


async def _entity_called(memory: Memory, name: str, lineage: Lineage) -> UUID | None:
    """Return the entity of a name or alias, None where there is none; Conflict for several."""
    async with memory.transaction(lineage, snapshot=True) as tx:
        found = erasure.called(name, [row async for row, _ in rows_of(tx, "entity")])
    if len(found) > 1:
        known = "; ".join(f"{p['canonical_name']}, {p['entity_type']}: {p['id']}" for p in found)
        raise Conflict(f"about: {len(found)} have the name {name!r:.60}; give an id: {known}")
    return UUID(found[0]["id"]) if found else None


async def export_found(
    memory: Memory, selection: Selection, lineage: Lineage
) -> AsyncIterator[tuple[str, str]]:
    """Stream the rows that were found, with what is linked to them and what they refer to."""
    async with memory.transaction(lineage, snapshot=True) as tx:
        kept = await _with_references(tx, selection)
        for kind in KINDS:
            ends = _ENDS.get(kind.name, (kind.key,))
            async for row, written in rows_of(tx, kind.name):
                is_about = kind.name == "event" and row["memory_id"] in kept
                if is_about or kept.issuperset(row[end] for end in ends):
                    yield kind.name, written


async def _with_references(tx: Transaction, selection: Selection) -> set[str]:
    """Return the ids of all rows to export: an import refuses a row whose reference is missing."""
    found = {id for _, id in (*selection.found, *selection.reworded)}
    kept, references = found | set(selection.events), dict[str, list[str]]()
    for kind in KINDS[:-1]:  # all but events
        async for row, _ in rows_of(tx, kind.name):
            ends = {row[end] for end in _ENDS.get(kind.name, ())}
            kept |= set() if found.isdisjoint(ends) else ends
            if kind.name != "link":
                references[row[kind.key]] = [row[name] for name in _REFERENCES if row.get(name)]
    return _reached(kept, references)


def _reached(ids: Set[str], references: Mapping[str, Iterable[str]]) -> set[str]:
    """Return some ids with all that they refer to, directly or not."""
    reached, waiting = set(ids), list(ids)
    while waiting:
        new = set(references.get(waiting.pop(), ())) - reached
        reached |= new
        waiting += new
    return reached


async def bring(memory: Memory, lines: Iterable[ImportLine], lineage: Lineage) -> Brought:
    """Import rows, all or none; a row that exists stays as it is."""
    brought = Brought({}, {})
    try:
        async with memory.transaction(replace(lineage, actor=IMPORT)) as tx:
            for batch in _batches(lines):
                await _bring_batch(tx, batch, brought)
    except IntegrityViolation as error:
        raise IntegrityViolation(
            f"a line refers to a row that is neither in the file nor in the tenant; nothing was "
            f"written ({error})"
        ) from error
    return brought


async def embed_brought(memory: Memory, lineage: Lineage, on_progress: OnProgress) -> int:
    """Embed every memory without a vector; return how many. If it is cut off, run it again."""
    await memory.embed([" "], lineage)  # a tenant without any model has one from here on
    async with memory.transaction(lineage) as tx:
        versions = await embeddings.find_versions(tx)
    for version in versions:
        if version.state is VersionState.CURRENT:
            made = await embed_missing(vector_job(memory, lineage, version, on_progress))
            await move_into_rows(memory, version, lineage, only_empty=True)
            return made
    return 0


def _batches(lines: Iterable[ImportLine]) -> Iterator[list[ImportLine]]:
    """Group lines that one statement can import: of one kind, with the same columns."""
    for _, same in groupby(lines, key=lambda line: (line.kind, sorted(line.row))):
        while batch := list(islice(same, BATCH)):
            yield batch


async def _bring_batch(tx: Transaction, batch: list[ImportLine], brought: Brought) -> None:
    kind = _BY_NAME[batch[0].kind]
    try:
        stored = await _enter(tx, kind, batch)
    except ButlersError:
        await _name_the_line(tx, kind, batch)
        raise
    brought.stored[kind.name] = brought.stored.get(kind.name, 0) + stored
    brought.known[kind.name] = brought.known.get(kind.name, 0) + len(batch) - stored


async def _enter(tx: Transaction, kind: RowKind, batch: list[ImportLine]) -> int:
    """Import rows in a savepoint; return how many did not exist yet."""
    array = f"[{','.join(_with_words(kind, line) for line in batch)}]"
    with translated_errors():
        async with tx.savepoint():
            if kind.name == "event":
                return await rows.bring_events(tx, rows=array)
            return await rows.bring(tx, kind=kind.table, rows=array)


async def _name_the_line(tx: Transaction, kind: RowKind, batch: list[ImportLine]) -> None:
    """Raise an error that names the line of a batch that cannot be imported, and why."""
    for line in batch:
        try:
            await _enter(tx, kind, [line])
        except Conflict as error:
            raise Conflict(
                f"line {line.number}: this {kind.name} conflicts with an existing one ({error}); "
                "nothing was written. Import into an empty tenant: --tenant NAME, in another butler"
            ) from error
        except ButlersError as error:
            raise InvalidInput(f"line {line.number}: {error}; nothing was written") from error


def _with_words(kind: RowKind, line: ImportLine) -> str:
    """Return the JSON of a row with the text that the search index needs."""
    text = rows.searchable(kind, line.row)
    if text is None:
        return line.written
    return f'{{"searchable": {json.dumps(prepared(preprocess_text(text)))}, {line.written[1:]}'


async def known_keys(memory: Memory, keys: list[str], lineage: Lineage) -> set[str]:
    """Return those of these idempotency keys that are in use."""
    async with memory.transaction(lineage) as tx:
        return {row["idempotency_key"] for row in await rows.known_keys(tx, keys=keys)}
