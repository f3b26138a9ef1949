"""Our own format: everything a butler keeps for a tenant, as lines of JSON.

The first line names the columns of each kind, the last the number and the hash of the others. The
same memories are always the same bytes. An import checks the whole file before it writes anything.
Here the rows of a file that is trusted are brought; `export_memories` reads any other.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from butlers.errors import InvalidInput
from butlers.host.butler import Butler
from butlers.kernel.json_values import DEEPEST, is_deeper
from butlers.kernel.secrets import Secrets, admitted_json, admitted_key
from butlers.kernel.text import one_line
from butlers.memory.flows import portable
from butlers.memory.flows.portable import ImportLine
from butlers.memory.model import Lineage
from butlers.notebook import portable as notes
from butlers.notebook.handle import Notebook
from butlers.notebook.module import NotebookModule

FORMAT, VERSION = "butlers_export", 1
NOTE, END = "note", "end"


async def export_lines(butler: Butler, lineage: Lineage) -> AsyncIterator[bytes]:
    """Yield the lines of an export."""
    found = await find_notes(butler, lineage)
    rows = portable.export_rows(butler.memory, lineage)
    async for line in lines_of(butler, lineage, rows, found):
        yield line


async def find_notes(
    butler: Butler, lineage: Lineage, wanted: Callable[[dict[str, Any]], bool] = lambda note: True
) -> list[dict[str, Any]]:
    """List the notes of a tenant that the predicate accepts; none without a notebook."""
    if (notebook := notebook_of(butler)) is None:
        return []
    return await notebook.apart(notes.find, notebook, lineage.tenant_id, wanted)


async def lines_of(
    butler: Butler, lineage: Lineage, rows: AsyncIterator[tuple[str, str]],
    found: Iterable[Mapping[str, Any]], **about: Any,
) -> AsyncIterator[bytes]:  # fmt: skip
    """Yield the lines of an export of rows and notes; the first says what it is `about`."""
    kinds = await portable.columns(butler.memory, lineage) | {NOTE: list(notes.COLUMNS)}
    head = _line(FORMAT, _json({"version": VERSION, "kinds": kinds} | about))
    digest, number = hashlib.sha256(head), 1
    yield head
    async for line in _each(rows, found):
        digest.update(line)
        number += 1
        yield line
    yield _line(END, _json({"lines": number, "sha256": digest.hexdigest()}))


async def _each(
    rows: AsyncIterator[tuple[str, str]], found: Iterable[Mapping[str, Any]]
) -> AsyncIterator[bytes]:
    async for kind, row in rows:
        yield _line(kind, row)
    for note in found:
        yield _line(NOTE, _json(note))


def notebook_of(butler: Butler) -> Notebook | None:
    """Return the butler's open notebook; None if it has none."""
    if not butler.settings.is_enabled(NotebookModule.name):
        return None
    module = butler.module(NotebookModule.name)
    assert isinstance(module, NotebookModule)
    return module.manager.db


def _line(kind: str, written: str) -> bytes:
    return f'{{"{kind}": {written}}}\n'.encode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


MAX_LINE_BYTES = 64 * 1024**2
_OURS = "an export of butlers, as `butlers export` writes it"


def is_export(first: bytes) -> bool:
    """Whether a file with this beginning is an export of ours."""
    return first.lstrip().startswith(b'{"' + FORMAT.encode())


def check_lines(file: Path, known: Mapping[str, Sequence[str]] | None) -> dict[str, int]:
    """Count the lines of each kind; InvalidInput names the first line that is wrong.

    Without the `known` columns of each kind, rows are not checked.
    """
    counts: dict[str, int] = {}
    digest, number, end = hashlib.sha256(), 0, None
    with file.open("rb") as stream:
        for number, written in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES), b""), 1):
            if end is not None:
                raise _wrong(number, "found a line after the last one")
            kind, row, _ = _parsed(number, written)
            if kind == END:
                end = row
                continue
            digest.update(written)
            if number == 1:
                _check_head(kind, row)
                continue
            if known is not None:
                _check_row(number, kind, row, known)
            counts[kind] = counts.get(kind, 0) + 1
    _check_end(number, end, digest.hexdigest())
    return counts


def read_rows(file: Path, secrets: Secrets = "keep") -> Iterator[ImportLine]:
    """Yield the rows of a file that was checked, without their secrets."""
    with file.open("rb") as stream:
        for number, written in enumerate(stream, 1):
            kind, row, text = _parsed(number, written)
            if kind not in (END, FORMAT):
                line = ImportLine(number, kind, row, text)
                yield line if secrets == "keep" else _without_secrets(line, secrets)


_NO_TEXT, _KEYS = ("actor", "_by", "key"), ("key", "idempotency_key")
"""The ends of columns that name a token or hold a key: what they say looks like a secret."""


def _without_secrets(line: ImportLine, secrets: Secrets) -> ImportLine:
    row, texts = line.row, {n: value for n, value in line.row.items() if not n.endswith(_NO_TEXT)}
    if is_deeper(row, DEEPEST):
        raise _wrong(line.number, f"found lists and objects more than {DEEPEST} deep")
    try:
        keys = {n: admitted_key(secrets, n, str(row[n])) for n in _KEYS if row.get(n)}
        row = {**row, **admitted_json(secrets, line.kind, texts), **keys}
    except InvalidInput as error:
        raise _wrong(line.number, str(error)) from None
    return line if row == line.row else replace(line, row=row, written=_json(row))


def _parsed(number: int, written: bytes) -> tuple[str, dict[str, Any], str]:
    """Return the kind of a line, its row, and the JSON of the row."""
    try:
        text = written.decode("utf-8").strip()
        [(kind, row)] = json.loads(text).items()
    except UnicodeDecodeError:
        raise _wrong(number, "it is not text") from None
    except (ValueError, AttributeError, RecursionError):
        raise _wrong(number, f'found {written[:60]!r}; valid is {{"kind": {{…}}}}') from None
    if not isinstance(row, dict):
        raise _wrong(number, f"found {str(row)[:60]!r} for {kind[:60]}; valid is an object")
    # PostgreSQL gets the JSON as it was written, so that no number changes.
    return kind, row, text[text.index(":") + 1 : -1].strip()


def _check_head(kind: str, head: Mapping[str, Any]) -> None:
    if kind != FORMAT:
        raise _wrong(1, f"found {kind[:60]!r}; valid is {_OURS}")
    if head.get("version") != VERSION:
        raise _wrong(1, f"found version {head.get('version')!r}; this installation reads {VERSION}")


def _check_row(
    number: int, kind: str, row: Mapping[str, Any], known: Mapping[str, Sequence[str]]
) -> None:
    if kind not in known:
        raise _wrong(number, f"found {kind[:60]!r}; valid are {', '.join(known)}")
    unknown = sorted(row.keys() - set(known[kind]))
    if unknown:
        raise _wrong(
            number, f"{kind} has no {unknown[0][:60]!r} here; a newer version may have written it"
        )
    if kind == NOTE and (fault := notes.fault(dict(row))):
        raise _wrong(number, fault)
    if kind not in (NOTE, "project") and not _has_id(row):
        raise _wrong(number, f"{kind}: its id is missing or not a UUID")


def _has_id(row: Mapping[str, Any]) -> bool:
    id = next((row[name] for name in ("id", "episode_id", "source_id") if name in row), None)
    with suppress(ValueError):
        UUID(str(id))
        return True
    return False


def _check_end(number: int, end: Mapping[str, Any] | None, digest: str) -> None:
    if end is None:
        raise _wrong(number + 1, "the file is truncated: its last line is missing")
    if end.get("lines") != number - 1 or end.get("sha256") != digest:
        raise _wrong(number, "the file was changed after it was written: its hash differs")


def _wrong(number: int, what: str) -> InvalidInput:
    return InvalidInput(f"line {number}: {what}; nothing was written")


OnStep = Callable[[str, int, int], None]
"""Called with the step, how much of it is done, and its total."""


_SAYS = ("canonical_name", "subject", "predicate", "key", "content")
_EXCERPT = 100


@dataclass(slots=True)
class Imported:
    """The result of an import by kind: stored, known already, and reasons for what was skipped.

    Of a dry run it is what would be, with every item: its place, kind and state, and what it says.
    """

    source: str
    dry_run: bool = False
    stored: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    items: list[dict[str, str]] = field(default_factory=list)

    def count(self, place: str, kind: str, says: str, *, is_known: bool = False) -> None:
        """Count an item that is stored, or was before."""
        counts = self.known if is_known else self.stored
        counts[kind] = counts.get(kind, 0) + 1
        self._list(place, kind, "known" if is_known else "new", says)

    def skip(self, place: str, why: str) -> None:
        """Add an item that is not stored, and why."""
        self.skipped.append(f"{place}: {why}")
        self._list(place, "", "skipped", why)

    def _list(self, place: str, kind: str, state: str, says: str) -> None:
        if self.dry_run:
            says = one_line(says)[:_EXCERPT]
            self.items.append({"place": place, "kind": kind, "state": state, "says": says})


async def bring_export(
    butler: Butler, file: Path, lineage: Lineage, on_step: OnStep, dry_run: bool
) -> Imported:
    """Import an export that is trusted; again, it changes nothing or finishes what it left."""
    known = await portable.columns(butler.memory, lineage) | {NOTE: list(notes.COLUMNS)}
    on_step("checking", 0, 0)
    counts = await asyncio.to_thread(check_lines, file, known)
    notebook = notebook_of(butler)
    if counts.get(NOTE) and notebook is None:
        raise InvalidInput(
            f"the file has {counts[NOTE]} notes, and butler {butler.name} has no notebook; set "
            "modules.notebook.enabled = true in its butler.toml. Nothing was written"
        )
    done = Imported("butlers", dry_run)
    if dry_run:
        for line in read_rows(file):
            says = " ".join(str(line.row[name]) for name in _SAYS if line.row.get(name))
            done.count(f"line {line.number}", line.kind, says)
        return done
    on_step("storing", 0, sum(counts.values()))
    rows = partial(read_rows, file, butler.memory.settings.secrets)
    memories = (line for line in rows() if line.kind != NOTE)
    brought = await portable.bring(butler.memory, memories, lineage)
    done.stored, done.known = brought.stored, brought.known
    if notebook is not None and counts.get(NOTE):
        new = ((line.number, line.row) for line in rows() if line.kind == NOTE)
        stored = await notebook.apart(notes.bring, notebook, lineage.tenant_id, new)
        done.stored[NOTE], done.known[NOTE] = stored, counts[NOTE] - stored
    await portable.embed_brought(butler.memory, lineage, partial(on_step, "embedding"))
    return done
