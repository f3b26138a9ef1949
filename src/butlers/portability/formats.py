"""The formats of exports and imports, and how a file's format is recognised."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

from butlers.errors import InvalidInput
from butlers.host.butler import Butler
from butlers.llm.envelopes import mapping
from butlers.memory.model import Lineage
from butlers.portability import foreign, native, pam
from butlers.portability.native import Imported, OnStep
from butlers.sessions.privacy import check_storing

_MARKS = {"mapping": "chatgpt", "chat_messages": "claude", "memory": "mem0"}
EXPORTS = {"butlers": native.export_lines, "pam": pam.export_pam}
IMPORTS: Mapping[str, Callable[[Butler, Path, Lineage, OnStep], Awaitable[Imported]]] = {
    "butlers": native.bring_export,
    **{format: partial(foreign.bring_foreign, format) for format in foreign.READERS},
}


def exported(butler: Butler, lineage: Lineage, format: str) -> AsyncIterator[bytes]:
    """Yield the bytes of an export in a format."""
    if format not in EXPORTS:
        raise InvalidInput(f"format: found {format!r:.60}; valid are {', '.join(EXPORTS)}")
    return EXPORTS[format](butler, lineage)


async def imported(
    butler: Butler,
    source: Path,
    named: str | None,
    lineage: Lineage,
    on_step: OnStep = lambda step, done, total: None,
) -> Imported:
    """Import a file or folder, in the format named or recognised; refuse unknown formats."""
    if not source.exists():
        raise InvalidInput(f"{source}: there is no such file")
    check_storing(str(butler.home.root))
    format = named if named is not None else await asyncio.to_thread(recognised, source)
    if format not in IMPORTS:
        raise InvalidInput(f"from: found {format!r:.60}; valid are {', '.join(IMPORTS)}")
    return await IMPORTS[format](butler, source, lineage, on_step)


def recognised(source: Path) -> str:
    """Recognise the format of a file or folder."""
    if source.suffix.lower() in (".md", ".markdown"):
        return "markdown"
    if source.is_dir():
        return "markdown" if not any(source.glob("conversations*.json")) else _by_members(source)
    with source.open("rb") as stream:
        if native.is_export(stream.read(200)):
            return "butlers"
    return _by_members(source)


def _by_members(source: Path) -> str:
    for member in foreign.members(source).values():
        if isinstance(member, Mapping) and member.get("schema") == pam.SCHEMA:
            return "pam"
        rows = member.get("results", [member]) if isinstance(member, Mapping) else member
        first = mapping(rows[0]) if isinstance(rows, list) and rows else {}
        for mark, format in _MARKS.items():
            if mark in first:
                return format
    raise InvalidInput(f"{source}: nothing that can be imported; say what it is with --from")
