"""The HTTP API, described by OpenAPI: per butler, and over the whole fleet."""

from fastapi import APIRouter

from butlers.dashboard.api import (
    entities,
    fleet,
    glancing,
    jobs,
    judging,
    looking,
    reading,
    storing,
)
from butlers.dashboard.faults import FAILURES
from butlers.dashboard.seats import DOCUMENTED_TOKEN

router = APIRouter(prefix="/api", responses=FAILURES, dependencies=[DOCUMENTED_TOKEN])
for part in (looking, reading, glancing, storing, judging, entities, jobs):
    router.include_router(part.router, prefix="/butlers/{name}/memory")
router.include_router(fleet.router)
