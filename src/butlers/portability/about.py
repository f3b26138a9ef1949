"""Export everything about one person or thing: what an erasure would find, with its references.

The file can be imported. Its first line says which names were searched for, where, what was found
that no import can take, and what could not be searched.
"""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from butlers.host.butler import Butler
from butlers.memory.flows import portable
from butlers.memory.model import Lineage
from butlers.memory.policy.erasure import ErasureRequest, Selection
from butlers.portability import erase, native
from butlers.portability.erase import Beside, Gone

_SEARCHED = ("memories", "bin", "events", "notes", "session log", "spool", "logs")
_NOT_SEARCHED = (
    "backups and exports made before",
    "transcripts that agents keep",
    "files that a memory only names",
)


async def preview(butler: Butler, lineage: Lineage, about: str) -> dict[str, Any]:
    """Say what an export about somebody would hold: names, counts, and what it cannot hold."""
    selection, beside = await _find(butler, lineage, about)
    rows = portable.export_found(butler.memory, selection, lineage)
    counts = Counter([kind async for kind, _ in rows])
    counts.update({native.NOTE: len(beside.notes)} if beside.notes else {})
    return {"counts": counts, **_report(selection, beside)}


async def export_about(butler: Butler, lineage: Lineage, about: str) -> AsyncIterator[bytes]:
    """Find what is about somebody, and return the lines of its export."""
    selection, beside = await _find(butler, lineage, about)
    rows = portable.export_found(butler.memory, selection, lineage)
    report = _report(selection, beside)
    return native.lines_of(butler, lineage, rows, beside.notes, about=report)


async def _find(butler: Butler, lineage: Lineage, about: str) -> tuple[Selection, Beside]:
    erase.check(ErasureRequest(about))
    selection = await portable.find_about(butler.memory, about, lineage)
    wanted, gone = ErasureRequest(about), Gone.of(selection)
    return selection, await erase.find_beside(butler, wanted, gone, lineage)


def _report(selection: Selection, beside: Beside) -> dict[str, Any]:
    elsewhere = {kind: number for kind, number in beside.counts.items() if kind != native.NOTE}
    return {
        "names": selection.names,
        "searched": _SEARCHED,
        "found_but_not_exported": elsewhere,
        "not_searched": _NOT_SEARCHED,
    }
