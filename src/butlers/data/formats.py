"""Which formats memories leave in and come in, and which one a file is."""

from collections.abc import AsyncIterator
from pathlib import Path

from butlers.butler.butler import Butler
from butlers.data import lines
from butlers.data.bring import Imported, OnStep, bring_export, unwatched
from butlers.data.export import export_lines
from butlers.errors import InvalidInput
from butlers.memory.model import Lineage

EXPORTS = {"butlers": export_lines}
IMPORTS = {"butlers": bring_export}


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
    format = named or recognised(source)
    if format not in IMPORTS:
        raise InvalidInput(f"from: found {format!r:.60}; valid are {', '.join(IMPORTS)}")
    return await IMPORTS[format](butler, source, lineage, on_step)


def recognised(source: Path) -> str:
    """The format that a file or folder is in."""
    with source.open("rb") as stream:
        if lines.is_export(stream.read(200)):
            return "butlers"
    raise InvalidInput(f"{source}: nothing that can be imported; say what it is with --from")
