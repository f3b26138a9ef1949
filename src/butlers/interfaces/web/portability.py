"""The page "Your data": export, and erasure with a preview."""

import json
from typing import Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.responses import Response

from butlers.errors import InvalidInput
from butlers.interfaces.http.access import ButlerAccess
from butlers.interfaces.http.butlers import preview_removal
from butlers.interfaces.http.portability import AskedErasure, erase, lineage_of
from butlers.interfaces.web.pages import PageRoute, render_butler
from butlers.interfaces.web.visits import Name, Sending, Visiting
from butlers.operation import faults_in_words
from butlers.portability import erase as erasing

router = APIRouter(route_class=PageRoute)
_PATH = "/butlers/{name}/memory/data"


@router.get(_PATH)
async def data(visit: Visiting, name: Name, about: str = "", keep: str = "") -> Response:
    """Show the exports, and preview an erasure."""
    access, asked = visit.access(name), {"about": about.strip(), "keep": keep.strip()}
    found = await _preview(access, asked) if asked["about"] else None
    return render_butler(
        visit,
        name,
        "data",
        asked=asked,
        found=found,
        receipt="",
        may_erase=access.is_operator,
        removal=await _removal(access),
    )


@router.post(_PATH + "/erase")
async def confirmed(sent: Sending, name: Name) -> Response:
    """Erase what was previewed and show the receipt, once."""
    access = sent.visit.access(name)
    asked = {"about": sent.form["about"].strip(), "keep": sent.form["keep"].strip()}
    receipt = await erase(access, _erase_request(asked))
    return render_butler(
        sent.visit,
        name,
        "data",
        asked={"about": "", "keep": ""},
        found=None,
        receipt=json.dumps(receipt, indent=2, ensure_ascii=False),
        may_erase=access.is_operator,
        removal=await _removal(access),
    )


async def _removal(access: ButlerAccess) -> dict[str, Any] | None:
    """Preview the removal of the butler, for those who may run its jobs."""
    return await preview_removal(access) if access.may_run_jobs else None


async def _preview(access: ButlerAccess, asked: dict[str, str]) -> dict[str, Any]:
    return await erasing.preview(access.butler, _erase_request(asked).wanted, lineage_of(access))


def _erase_request(asked: dict[str, str]) -> AskedErasure:
    """Read a name or the id of an entity, and the ids to keep, separated by spaces."""
    given: dict[str, Any] = {"keep": asked["keep"].split()}
    try:
        given["entity"] = UUID(asked["about"])
    except ValueError:
        given["about"] = asked["about"]
    try:
        return AskedErasure.model_validate(given)
    except ValidationError as error:
        raise InvalidInput(faults_in_words(error)) from None
