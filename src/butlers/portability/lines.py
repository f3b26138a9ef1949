"""The lines of an export as they are read: checked from the first to the last before any is used.

A file is read twice, and never held: once to see that all of it can be brought in, once to do so.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from butlers.errors import InvalidInput
from butlers.memory.flows.portable import ImportLine
from butlers.notebook import portable as notes
from butlers.portability.export import END, FORMAT, NOTE, VERSION

MAX_LINE_BYTES = 64 * 1024**2
_OURS = "an export of butlers, as `butlers export` writes it"


def is_export(first: bytes) -> bool:
    """Whether a file that begins so is an export of ours."""
    return first.lstrip().startswith(b'{"' + FORMAT.encode())


def check(file: Path, known: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How many lines of each kind a file has; InvalidInput names the first line that is wrong."""
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
            _check_row(number, kind, row, known)
            counts[kind] = counts.get(kind, 0) + 1
    _check_end(number, end, digest.hexdigest())
    return counts


def rows(file: Path) -> Iterator[ImportLine]:
    """The rows of a file that was checked."""
    with file.open("rb") as stream:
        for number, written in enumerate(stream, 1):
            kind, row, text = _parsed(number, written)
            if kind not in (END, FORMAT):
                yield ImportLine(number, kind, row, text)


def _parsed(number: int, written: bytes) -> tuple[str, dict[str, Any], str]:
    """The kind of a line, what it says, and how that is written."""
    try:
        text = written.decode("utf-8").strip()
        [(kind, row)] = json.loads(text).items()
    except (ValueError, AttributeError, RecursionError):
        raise _wrong(number, f'found {written[:60]!r}; valid is {{"kind": {{…}}}}') from None
    if not isinstance(row, dict):
        raise _wrong(number, f"found {str(row)[:60]!r} for {kind[:60]}; valid is an object")
    # What PostgreSQL is given is what was written: no number passes through another form.
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
        raise _wrong(number, f"{kind} has no id that is one")


def _has_id(row: Mapping[str, Any]) -> bool:
    given = next((row[name] for name in ("id", "episode_id", "source_id") if name in row), None)
    try:
        UUID(str(given))
    except ValueError:
        return False
    return True


def _check_end(number: int, end: Mapping[str, Any] | None, digest: str) -> None:
    if end is None:
        raise _wrong(number + 1, "the file ends before its last line; it was cut off")
    if end.get("lines") != number - 1 or end.get("sha256") != digest:
        raise _wrong(number, "the file is not what it was when it was written: its hash differs")


def _wrong(number: int, what: str) -> InvalidInput:
    return InvalidInput(f"line {number}: {what}; nothing was written")
