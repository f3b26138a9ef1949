"""Addresses below the pages' own where nothing is."""

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.responses import Response

from butlers.dashboard.pages.routing import PageRoute

router = APIRouter(route_class=PageRoute)


@router.get("/memory/{rest:path}")
@router.get("/butlers/{rest:path}")
async def missing(rest: str) -> Response:
    """There is no such page."""
    raise HTTPException(404, f"there is no page {rest[:80]!r}; begin with the fleet")
