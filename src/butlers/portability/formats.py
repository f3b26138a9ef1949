"""The formats of exports and imports, and how a file's format is recognised."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from butlers.errors import InvalidInput
from butlers.host.butler import Butler
from butlers.llm.envelopes import mapping
from butlers.memory.flows.authority import must_be_a_person
from butlers.memory.model import Lineage, Origin
from butlers.portability import native, pam
from butlers.portability.about import export_about
from butlers.portability.foreign import bring_foreign
from butlers.portability.items import members
from butlers.portability.native import Imported, OnStep
from butlers.portability.readers import READERS, is_mcp_memory
from butlers.sessions.privacy import check_storing

_MARKS = {"mapping": "chatgpt", "chat_messages": "claude", "memory": "mem0"}
_LONGEST_FIRST = 1024**2
_FIRST_LINES: Mapping[str, Callable[[bytes], bool]] = {
    "butlers": native.is_export,
    "mcp-memory": is_mcp_memory,
    "claude-mem": lambda first: first.startswith(b"SQLite format 3\0"),
}
EXPORTS = {"butlers": native.export_lines, "pam": pam.export_pam}
IMPORTS = tuple(READERS)


async def exported(
    butler: Butler, lineage: Lineage, format: str, about: str = ""
) -> AsyncIterator[bytes]:
    """Yield the bytes of an export in a format; `about` one person or thing only in our own."""
    if about and format == "butlers":
        return await export_about(butler, lineage, about)
    if about:
        raise InvalidInput(f"format: found {format!r:.60}; valid with about is butlers")
    if format not in EXPORTS:
        raise InvalidInput(f"format: found {format!r:.60}; valid are {', '.join(EXPORTS)}")
    return EXPORTS[format](butler, lineage)


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What to import: a file or folder, its format ("": recognised), or only to show it.

    `trusted`: the importer vouches for who the file says stated what; only a person may.
    """

    file: Path
    format: str = ""
    dry_run: bool = False
    trusted: bool = False


async def imported(
    butler: Butler,
    wanted: ImportRequest,
    lineage: Lineage,
    on_step: OnStep = lambda step, done, total: None,
) -> Imported:
    """Import a file or folder, or show what each item would become; refuse unknown formats.

    Unless it is trusted, all of it is a document's: no more trusted, and stored like anything else.
    """
    if wanted.trusted:
        must_be_a_person(lineage, "vouch for what a file says")
    lineage = replace(lineage, origin=Origin.AGENT if wanted.trusted else Origin.DOCUMENT)
    if not wanted.file.exists():
        raise InvalidInput(f"{wanted.file}: there is no such file")
    check_storing(str(butler.home.root))
    format = wanted.format or await asyncio.to_thread(recognised, wanted.file)
    if format not in IMPORTS:
        raise InvalidInput(f"from: found {format!r:.60}; valid are {', '.join(IMPORTS)}")
    is_whole = wanted.trusted and format == "butlers"
    bring = native.bring_export if is_whole else partial(bring_foreign, format)
    return await bring(butler, wanted.file, lineage, on_step, wanted.dry_run)


def recognised(source: Path) -> str:
    """Recognise the format of a file or folder."""
    if source.suffix.lower() in (".md", ".markdown"):
        return "markdown"
    if source.is_dir():
        has_json = any(source.glob("conversations*.json")) or (source / "manifest.json").exists()
        return _by_members(source) if has_json else "markdown"
    with source.open("rb") as stream:
        first = stream.readline(_LONGEST_FIRST)
    matching = (format for format, is_meant in _FIRST_LINES.items() if is_meant(first))
    return next(matching, "") or _by_members(source)


def _by_members(source: Path) -> str:
    for member in members(source).values():
        if "source_bank_id" in mapping(member):
            return "hindsight"
        if isinstance(member, Mapping) and member.get("schema") == pam.SCHEMA:
            return "pam"
        rows = member.get("results", [member]) if isinstance(member, Mapping) else member
        first = mapping(rows[0]) if isinstance(rows, list) and rows else {}
        for mark, format in _MARKS.items():
            if mark in first:
                return format
    raise InvalidInput(f"{source}: nothing that can be imported; say what it is with --from")
