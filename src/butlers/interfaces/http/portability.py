"""What a butler keeps of a caller is the caller's: taken along, brought in, erased.

Whoever may read may take along, and see what would be erased. To bring in is to say who said what
and when, and to erase cannot be undone: both are for whoever runs the home.
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

from butlers.errors import InvalidInput
from butlers.interfaces.http.access import ButlerAccess, CurrentAccess
from butlers.memory.model import Lineage
from butlers.memory.policy.erasure import ErasureRequest
from butlers.operation import Input, Output
from butlers.portability import erase as erasing
from butlers.portability.formats import EXPORTS, IMPORTS, exported, imported

router = APIRouter(tags=["data"])
MOST_KEPT, LONGEST_NAME = 1_000, 200
FILES = {"butlers": ("jsonl", "application/jsonl"), "pam": ("pam.json", "application/json")}
_IMPORTING = "to import is to say who said what; whoever runs the home may: `butlers import FILE`"
_ERASING = "erasing cannot be undone; whoever runs the home may: `butlers erase`"


class AskedErasure(Input):
    """Whom or what to erase: one of about, entity, session or everything."""

    about: Annotated[str, Field(max_length=LONGEST_NAME)] = ""
    """Whoever has this name."""
    entity: UUID | None = None
    """The entity with this id, by all its names."""
    session: Annotated[str, Field(max_length=LONGEST_NAME)] = ""
    """What came of the session with this id."""
    everything: bool = False
    """Everything there is."""
    keep: Annotated[list[str], Field(max_length=MOST_KEPT)] = []
    """Ids, or how they begin, of what is kept all the same."""

    @property
    def wanted(self) -> ErasureRequest:
        """What is asked, as it is done."""
        return ErasureRequest(
            self.about, self.entity, self.session, self.everything, tuple(self.keep)
        )


class Erasable(Output):
    """Something that would be erased, and why."""

    kind: str
    id: str
    why: str
    says: str
    """How it begins."""


class ErasurePreview(Output):
    """What would be erased."""

    counts: dict[str, int]
    found: list[Erasable]


class Receipt(Output):
    """What was erased, signed with the home's own key; of whom it was, only hashes."""

    at: str
    counts: dict[str, int]
    erased: list[dict[str, Any]]
    signed_by: str
    signature: str


class ReceiptCheck(Output):
    """Whose a receipt is."""

    signed: str


class ImportDone(Output):
    """What came of an import, by kind, and what was left out."""

    source: str
    stored: dict[str, int]
    known: dict[str, int]
    skipped: list[str]


class AskedVerdict(Input):
    """A receipt."""

    receipt: dict[str, Any]
    """The receipt as it was given."""


@router.get("/export", response_class=StreamingResponse)
async def export(
    access: CurrentAccess,
    format: Annotated[str, Query(description=f"One of {', '.join(EXPORTS)}.")] = "butlers",
) -> StreamingResponse:
    """Everything the butler keeps for the caller: lines of JSON, or Portable AI Memory 1.0."""
    stream = exported(access.butler, lineage_of(access), format)
    ending, kind = FILES[format]
    name = f'attachment; filename="{access.butler.name}.{ending}"'
    return StreamingResponse(stream, media_type=kind, headers={"Content-Disposition": name})


@router.post("/import", response_model=ImportDone)
async def bring(
    access: CurrentAccess,
    request: Request,
    source: Annotated[str | None, Query(description=f"One of {', '.join(IMPORTS)}.")] = None,
) -> Any:
    """Bring in the file that is the request's body, for whoever runs the home.

    A larger file than one request may have is brought in by `butlers import`.
    """
    must_run_the_home(access, _IMPORTING)
    with tempfile.TemporaryDirectory(dir=access.butler.home.root) as directory:
        file = Path(directory) / "import"
        with file.open("wb") as stream:
            async for piece in request.stream():
                stream.write(piece)
        return await imported(access.butler, file, source, lineage_of(access))


@router.post("/erase/preview", response_model=ErasurePreview)
async def preview_erasure(access: CurrentAccess, asked: AskedErasure) -> Any:
    """What would be erased, listed and counted; nothing is changed."""
    return await erasing.preview(access.butler, asked.wanted, lineage_of(access))


@router.post("/erase", response_model=Receipt)
async def erase(access: CurrentAccess, asked: AskedErasure) -> Any:
    """Erase for good, for whoever runs the home: rows, vectors, words, notes, files. A receipt."""
    must_run_the_home(access, _ERASING)
    return await erasing.erase(access.butler, asked.wanted, lineage_of(access))


@router.post("/erase/verify", response_model=ReceiptCheck)
async def verify_receipt(access: CurrentAccess, asked: AskedVerdict) -> Any:
    """Whether a receipt is whole, and whether this home signed it."""
    try:
        return {"signed": erasing.verify_receipt(access.butler.home, asked.receipt)}
    except RecursionError:
        raise InvalidInput("the receipt is not one of butlers") from None


def lineage_of(access: ButlerAccess) -> Lineage:
    """On whose behalf the caller acts."""
    return Lineage(access.caller.tenant_id, access.caller.actor, access.request_id)


def must_run_the_home(access: ButlerAccess, why: str) -> None:
    """403 for everybody but who runs the home."""
    if not access.is_operator:
        raise HTTPException(403, why)
