"""What an agent would be told before it answers a prompt, and why."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from butlers.doors.http.reading import AskedContext, preview_context
from butlers.doors.pages.asked import read
from butlers.doors.pages.rendering import render, seated
from butlers.doors.pages.routing import PageRoute
from butlers.doors.pages.visits import Name, Sending, Visit, Visiting

router = APIRouter(route_class=PageRoute)


@router.get("/butlers/{name}/memory/context")
async def ask(visit: Visiting, name: Name) -> Response:
    """The form for a prompt."""
    return _page(visit, name, {}, None)


@router.post("/butlers/{name}/memory/context")
async def preview(sent: Sending, name: Name) -> Response:
    """The block, its budget and its reasons; nothing is counted as a use."""
    fields = {key: value for key, value in sent.form.fields.items() if value.strip()}
    asked = read(AskedContext, {"prompt": "", **fields})
    return _page(sent.visit, name, fields, await preview_context(sent.visit.seat(name), asked))


def _page(visit: Visit, name: str, asked: dict[str, str], preview: Any) -> Response:
    budget = visit.seat(name).memory.settings.retrieval.context_token_budget
    return render(
        visit.request,
        "context.html",
        **seated(visit, name, "context"),
        asked=asked,
        preview=preview,
        budget=budget,
    )
