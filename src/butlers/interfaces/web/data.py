"""What a butler keeps of somebody: taken along, and erased after a look at what that would be."""

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
from butlers.interfaces.web.rendering import render, seated
from butlers.interfaces.web.routing import PageRoute
from butlers.interfaces.web.visits import Name, Sending, Visiting
from butlers.operation import faults_in_words
from butlers.portability import erase as erasing

router = APIRouter(route_class=PageRoute)
_PATH = "/butlers/{name}/memory/data"


@router.get(_PATH)
async def data(visit: Visiting, name: Name, about: str = "", keep: str = "") -> Response:
    """What may be taken along, and what would be erased with somebody."""
    access, asked = visit.access(name), {"about": about.strip(), "keep": keep.strip()}
    found = await _preview(access, asked) if asked["about"] else None
    return render(
        visit.request,
        "data.html",
        **seated(visit, name, "data"),
        asked=asked,
        found=found,
        receipt="",
        may_erase=access.is_operator,
        removal=await _removal(access),
    )


@router.post(_PATH + "/erase")
async def confirmed(sent: Sending, name: Name) -> Response:
    """Erase what was previewed; the receipt is shown once."""
    access = sent.visit.access(name)
    asked = {"about": sent.form["about"].strip(), "keep": sent.form["keep"].strip()}
    receipt = await erase(access, _erase_request(asked))
    return render(
        sent.visit.request,
        "data.html",
        **seated(sent.visit, name, "data"),
        asked={"about": "", "keep": ""},
        found=None,
        receipt=json.dumps(receipt, indent=2, ensure_ascii=False),
        may_erase=access.is_operator,
        removal=await _removal(access),
    )


async def _removal(access: ButlerAccess) -> dict[str, Any] | None:
    """What would go with the butler, for whoever may ask."""
    return await preview_removal(access) if access.may_run_jobs else None


async def _preview(access: ButlerAccess, asked: dict[str, str]) -> dict[str, Any]:
    return await erasing.preview(access.butler, _erase_request(asked).wanted, lineage_of(access))


def _erase_request(asked: dict[str, str]) -> AskedErasure:
    """A name, or the id of an entity; ids that are kept stand between spaces."""
    given: dict[str, Any] = {"keep": asked["keep"].split()}
    try:
        given["entity"] = UUID(asked["about"])
    except ValueError:
        given["about"] = asked["about"]
    try:
        return AskedErasure.model_validate(given)
    except ValidationError as error:
        raise InvalidInput(faults_in_words(error)) from None
