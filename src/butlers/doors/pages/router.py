"""Every page under one router."""

from fastapi import APIRouter

from butlers.doors.pages import (
    acting,
    butler,
    context,
    entities,
    fleet,
    jobs,
    listings,
    memory,
    search,
    sign_in,
)
from butlers.doors.pages.routing import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)
# Fixed paths before those that take any word in the same place.
for part in (
    sign_in,
    fleet,
    butler,
    search,
    context,
    jobs,
    entities,
    listings,
    memory,
    acting,
):
    router.include_router(part.router)
