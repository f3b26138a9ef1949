"""The HTTP API, described by OpenAPI: per butler, and over the whole fleet."""

from fastapi import APIRouter

from butlers.doors.http import entities, fleet, jobs, judging, looking, reading, storing
from butlers.doors.http import glance as glancing
from butlers.doors.http.faults import FAILURES
from butlers.doors.http.seats import DOCUMENTED_TOKEN

router = APIRouter(prefix="/api", responses=FAILURES, dependencies=[DOCUMENTED_TOKEN])
for part in (looking, reading, glancing, storing, judging, entities, jobs):
    router.include_router(part.router, prefix="/butlers/{name}/memory")
router.include_router(fleet.router)
