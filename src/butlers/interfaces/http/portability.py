"""Routes for a tenant's data: export, import and erasure.

Everybody who may read may export and preview an erasure. Import and erasure are for the operator:
an import states who said what and when, and an erasure cannot be undone.
"""

import tempfile
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse

from butlers.errors import InvalidInput, PresenceRequired
from butlers.interfaces.http.access import ButlerAccess, CurrentAccess
from butlers.memory.model import Lineage
from butlers.memory.operations import OperationContext
from butlers.memory.operations.results import report
from butlers.memory.policy.erasure import ErasureRequest
from butlers.operation import Input, Output
from butlers.portability import erase as erasing
from butlers.portability.formats import EXPORTS, IMPORTS, ImportRequest, exported, imported
from butlers.portability.native import Imported

router = APIRouter(tags=["data"])
MOST_KEPT, LONGEST_NAME = 1_000, 200
FILES = {"butlers": ("jsonl", "application/jsonl"), "pam": ("pam.json", "application/json")}


class AskedErasure(Input):
    """Whom or what to erase: one of about, entity, session or everything."""

    about: Annotated[str, Field(max_length=LONGEST_NAME)] = ""
    """The name of a person or thing."""
    entity: UUID | None = None
    """The id of an entity; it is searched by all its names."""
    session: Annotated[str, Field(max_length=LONGEST_NAME)] = ""
    """The id of a session; everything that came from it is erased."""
    everything: bool = False
    """Erase everything."""
    keep: Annotated[list[str], Field(max_length=MOST_KEPT)] = []
    """Ids of memories to keep, or the beginning of their ids."""

    @property
    def wanted(self) -> ErasureRequest:
        """The request in the form that erasing takes."""
        return ErasureRequest(
            self.about, self.entity, self.session, self.everything, tuple(self.keep)
        )


class Erasable(Output):
    """Something that would be erased, and why."""

    kind: str
    id: str
    why: str
    says: str
    """The beginning of its text."""


class ErasurePreview(Output):
    """What would be erased."""

    counts: dict[str, int]
    found: list[Erasable]


class Receipt(Output):
    """What was erased, signed with the home's own key; names are hashed."""

    at: str
    counts: dict[str, int]
    erased: list[dict[str, Any]]
    signed_by: str
    signature: str


class ReceiptCheck(Output):
    """Who signed a receipt."""

    signed: str


class AskedVerdict(Input):
    """A receipt to check."""

    receipt: dict[str, Any]
    """The receipt as it was returned."""


@router.get("/export", response_class=StreamingResponse)
async def export(
    access: CurrentAccess,
    format: Annotated[str, Query(description=f"One of {', '.join(EXPORTS)}.")] = "butlers",
    about: Annotated[
        str, Query(max_length=LONGEST_NAME, description="Only about this name or entity id.")
    ] = "",
) -> StreamingResponse:
    """Export everything stored for the caller, or only what is about one person or thing.

    The format is lines of JSON, or Portable AI Memory 1.0.
    """
    stream = await exported(access.butler, lineage_of(access), format, about)
    ending, kind = FILES[format]
    name = f'attachment; filename="{access.butler.name}.{ending}"'
    return StreamingResponse(stream, media_type=kind, headers={"Content-Disposition": name})


@router.post("/import", response_model=report(Imported))
async def bring(
    access: CurrentAccess,
    request: Request,
    source: Annotated[str | None, Query(description=f"One of {', '.join(IMPORTS)}.")] = None,
    dry_run: Annotated[bool, Query(description="List what each item would become.")] = False,
    trusted: Annotated[
        bool, Query(description="Keep who stated what, and how far that is trusted, as written.")
    ] = False,
) -> Any:
    """Import the request's body, for the operator; use `butlers import` for a larger file."""
    _require_operator(access, "import", "butlers import FILE")
    with tempfile.TemporaryDirectory(dir=access.butler.home.root) as directory:
        file = Path(directory) / "import"
        with file.open("wb") as stream:
            async for piece in request.stream():
                stream.write(piece)
        wanted = ImportRequest(file, source or "", dry_run, trusted)
        return await imported(access.butler, wanted, lineage_of(access))


@router.post("/erase/preview", response_model=ErasurePreview)
async def preview_erasure(access: CurrentAccess, asked: AskedErasure) -> Any:
    """List and count what would be erased; nothing is changed."""
    return await erasing.preview(access.butler, asked.wanted, lineage_of(access))


@router.post("/erase", response_model=Receipt)
async def erase(access: CurrentAccess, asked: AskedErasure) -> Any:
    """Erase permanently (rows, vectors, notes, files); return a receipt. Only for the operator."""
    _require_operator(access, "erase", "butlers erase")
    return await erasing.erase(access.butler, asked.wanted, lineage_of(access))


@router.post("/erase/verify", response_model=ReceiptCheck)
async def verify_receipt(access: CurrentAccess, asked: AskedVerdict) -> Any:
    """Check whether a receipt is complete, and whether this home signed it."""
    try:
        return {"signed": erasing.verify_receipt(access.butler.home, asked.receipt)}
    except RecursionError:
        raise InvalidInput("this is not a receipt of `butlers erase`") from None


def lineage_of(access: ButlerAccess) -> Lineage:
    """Return on whose behalf the caller acts."""
    return OperationContext.of(access.butler.memory, access.caller, access.request_id).lineage


def _require_operator(access: ButlerAccess, verb: str, command: str) -> None:
    if not access.caller.is_operator:
        raise HTTPException(
            403, f"only the operator of the home may {verb}: run `{command}` on its machine"
        )
    if not access.caller.may_decide:
        raise PresenceRequired(verb)
