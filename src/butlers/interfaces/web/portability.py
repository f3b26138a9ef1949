"""The page "Your data": export, and erasure with a preview."""

import json
from typing import Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.responses import Response

from butlers.errors import InvalidInput
from butlers.interfaces.http.butlers import preview_removal
from butlers.interfaces.http.portability import AskedErasure, erase, preview_erasure
from butlers.interfaces.web.pages import render_butler
from butlers.interfaces.web.visits import ButlerSending, ButlerVisit, ButlerVisiting
from butlers.operation import faults_in_words

router = APIRouter(prefix="/butlers/{name}/memory/data")


@router.get("")
async def data(visit: ButlerVisiting, about: str = "", keep: str = "") -> Response:
    """Show the exports, and preview an erasure."""
    asked = {"about": about.strip(), "keep": keep.strip()}
    preview = await preview_erasure(visit, _erasure(**asked)) if asked["about"] else None
    return await _render(visit, asked=asked, preview=preview, receipt="")


@router.post("/erase")
async def confirmed(visit: ButlerSending) -> Response:
    """Erase what was previewed and show the receipt, once."""
    receipt = await erase(visit, _erasure(visit.form["about"].strip(), visit.form["keep"]))
    text = json.dumps(receipt, indent=2, ensure_ascii=False)
    return await _render(visit, asked={"about": "", "keep": ""}, preview=None, receipt=text)


async def _render(visit: ButlerVisit, **values: Any) -> Response:
    """Render the page; those who may run its jobs also see what removing the butler deletes."""
    removal = await preview_removal(visit) if visit.may_run_jobs else None
    may_erase = visit.caller.is_operator
    return render_butler(visit, "data", may_erase=may_erase, removal=removal, **values)


def _erasure(about: str, keep: str) -> AskedErasure:
    """Read a name or the id of an entity, and the ids to keep, separated by spaces."""
    fields: dict[str, Any] = {"keep": keep.split()}
    try:
        fields["entity"] = UUID(about)
    except ValueError:
        fields["about"] = about
    try:
        return AskedErasure.model_validate(fields)
    except ValidationError as error:
        raise InvalidInput(faults_in_words(error)) from None
