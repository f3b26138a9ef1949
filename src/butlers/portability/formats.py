"""Which formats memories leave in and come in, and which one a file is."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from butlers.errors import InvalidInput
from butlers.host.butler import Butler
from butlers.memory.model import Lineage
from butlers.portability import foreign, pam
from butlers.portability.native import (
    Imported,
    OnStep,
    bring_export,
    export_lines,
    is_export,
    unwatched,
)

EXPORTS = {"butlers": export_lines, "pam": pam.export_pam}
IMPORTS: Mapping[str, Callable[[Butler, Path, Lineage, OnStep], Awaitable[Imported]]] = {
    "butlers": bring_export,
    "pam": foreign.bring_pam,
    "chatgpt": foreign.bring_chatgpt,
    "claude": foreign.bring_claude,
    "mem0": foreign.bring_mem0,
    "markdown": foreign.bring_markdown,
}


def exported(butler: Butler, lineage: Lineage, format: str) -> AsyncIterator[bytes]:
    """The bytes of an export in a format, a few at a time."""
    if format not in EXPORTS:
        raise InvalidInput(f"format: found {format!r:.60}; valid are {', '.join(EXPORTS)}")
    return EXPORTS[format](butler, lineage)


async def imported(
    butler: Butler,
    source: Path,
    named: str | None,
    lineage: Lineage,
    on_step: OnStep = unwatched,
) -> Imported:
    """What came of importing a file or folder, in the format named or the one it is in."""
    if not source.exists():
        raise InvalidInput(f"{source}: there is no such file")
    format = named if named is not None else await asyncio.to_thread(recognised, source)
    if format not in IMPORTS:
        raise InvalidInput(f"from: found {format!r:.60}; valid are {', '.join(IMPORTS)}")
    return await IMPORTS[format](butler, source, lineage, on_step)


def recognised(source: Path) -> str:
    """The format that a file or folder is in."""
    if source.suffix.lower() in (".md", ".markdown"):
        return "markdown"
    if source.is_dir():
        return "markdown" if not any(source.glob("conversations*.json")) else _by_members(source)
    with source.open("rb") as stream:
        if is_export(stream.read(200)):
            return "butlers"
    return _by_members(source)


def _by_members(source: Path) -> str:
    for told in foreign.members(source).values():
        found = _by_shape(told)
        if found:
            return found
    raise InvalidInput(f"{source}: nothing that can be imported; say what it is with --from")


def _by_shape(told: Any) -> str:
    if isinstance(told, Mapping) and told.get("schema") == pam.SCHEMA:
        return "pam"
    listed = told.get("results", [told]) if isinstance(told, Mapping) else told
    first = listed[0] if isinstance(listed, list) and listed else None
    marks = {"mapping": "chatgpt", "chat_messages": "claude", "memory": "mem0"}
    known = [format for mark, format in marks.items() if isinstance(first, dict) and mark in first]
    return known[0] if known else ""
