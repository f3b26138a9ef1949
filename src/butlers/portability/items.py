"""Read a file of another product item by item: a fault costs one item, and its reason is told.

A reader yields the place of each item in the file, and a function that reads it. Whatever that
function raises, the other items are read.
"""

import hashlib
import json
import sqlite3
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from butlers.errors import ButlersError, InvalidInput
from butlers.kernel.private_tags import without_private
from butlers.memory.model import New, NewEpisode, NewFact, Origin
from butlers.memory.policy.inputs import MAX_PREDICATE, MAX_SUBJECT
from butlers.portability.conversations import Conversation, Unreadable
from butlers.sessions.privacy import PrivacyRules

MAX_BYTES = 2 * 1024**3
"""The most that is read of an export, unpacked."""

_PREFIX, _LONGEST_ID = "import:", 300
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)
_FAULTS = (
    ButlersError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError,
    sqlite3.Error, *_DAMAGED,
)  # fmt: skip
Content = New | Conversation
Reading = Iterator[tuple[str, Callable[[], Iterable[Content]]]]
"""The place of each item in its file, and the function that reads it."""


@dataclass(frozen=True)
class Source:
    """The file or folder that is imported, its format, its butler, and what is private there."""

    file: Path
    format: str
    butler: str
    rules: PrivacyRules

    @cached_property
    def members(self) -> dict[str, Any]:
        """Its JSON documents by path."""
        return members(self.file)


def read_items(reading: Reading, source: Source) -> Iterator[tuple[str, Content | str]]:
    """Yield the place of each item, with what it becomes or why it is skipped."""
    place = ""
    try:
        for place, read in reading:  # noqa: B007  the last one is named below
            try:
                contents = [_admitted(content, source) for content in read()]
            except _FAULTS as error:
                is_told = isinstance(error, Unreadable | ButlersError)
                contents = [str(error) if is_told else f"it is malformed ({error!s:.200})"]
            yield from ((place, content) for content in contents or ["it says nothing"])
    except _FAULTS as error:
        if not place:
            raise
        yield f"what follows {place}", f"it cannot be read ({error!s:.200})"


def _admitted(content: Content, source: Source) -> Content | str:
    """Return what may be stored of a content, or why nothing may: decided here for all formats."""
    if isinstance(content, Conversation):
        return content
    text, key = without_private(content.content), content.idempotency_key or digest(content)
    if source.rules.matches(content.content) or not text.strip():
        return "it is private" if content.content.strip() else "it says nothing"
    # Who said something is the other product's guess, unless it is a document.
    known: dict[str, Any] = {"content": text, "origin": content.origin or Origin.INFERRED}
    known["idempotency_key"] = _import_key(source.format, key)
    known["metadata"] = {"source": source.format, **content.metadata}
    if not isinstance(content, NewEpisode):
        known["source_butler"] = source.butler
    if isinstance(content, NewFact):
        known["subject"] = str(content.subject)[:MAX_SUBJECT]
    return replace(content, **known)


def _import_key(format: str, key: str) -> str:
    is_whole = key.startswith(_PREFIX)
    return key if is_whole else f"{_PREFIX}{format}:{_short(key, _LONGEST_ID)}"


def members(source: Path) -> dict[str, Any]:
    """Read the JSON documents of an export by path: of a zip, of a folder, or the file itself.

    One of several that cannot be read is an `Unreadable`.
    """
    if source.is_dir():
        files = [file for file in sorted(source.rglob("*.json")) if file.is_file()]
        return {file.relative_to(source).as_posix(): _json(file.read_bytes) for file in files}
    if not zipfile.is_zipfile(source):
        document = _json(source.read_bytes)
        if isinstance(document, Unreadable):
            raise InvalidInput(f"{source.name}: {document}; nothing was written")
        return {source.name: document}
    with zipfile.ZipFile(source) as packed:
        listed = [info for info in packed.infolist() if info.filename.endswith(".json")]
        if sum(info.file_size for info in listed) > MAX_BYTES:
            raise InvalidInput(f"{source}: more than {MAX_BYTES} bytes; nothing was written")
        return {info.filename: _json(partial(packed.read, info)) for info in listed}


def _json(read: Callable[[], bytes]) -> Any:
    try:
        return json.loads(read())
    except (ValueError, *_DAMAGED) as error:
        is_binary = isinstance(error, UnicodeDecodeError)
        return Unreadable("it is not a text file" if is_binary else f"found no JSON ({error})")


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list; of anything else nothing."""
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def words(value: Any) -> tuple[str, ...]:
    """Return a list as words; of anything else nothing."""
    return tuple(map(str, value)) if isinstance(value, list) else ()


def text_list(value: Any) -> list[str]:
    """Return a list of texts; of anything else nothing may be lost, so it is Unreadable."""
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise Unreadable(f"found {value!r:.60}; valid is a list of texts")
    return value


def digest(*parts: Any) -> str:
    """Return the id of an item that has none, made from what it says."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def own_predicate(word: str, id: str) -> str:
    """Return a predicate that no memory with another id has; facts of one key replace each other.

    Ids made in the same second begin alike, so an id is used whole, or hashed if it is long.
    """
    fits = len(word) + 1 + len(id) <= MAX_PREDICATE
    return f"{word} {id}" if fits else f"{word[:20]} {_short(id, 0)}"


def _short(id: str, most: int) -> str:
    return id if len(id) <= most else hashlib.sha256(id.encode()).hexdigest()
