"""The HTTP API, described by OpenAPI: per butler, and over the whole fleet."""

from fastapi import APIRouter

from butlers.interfaces.http import backups, data, fleet, glance, jobs, removal, sessions
from butlers.interfaces.http.faults import FAILURES
from butlers.interfaces.http.routes import operation_routes
from butlers.interfaces.http.seats import DOCUMENTED_TOKEN

router = APIRouter(prefix="/api", responses=FAILURES, dependencies=[DOCUMENTED_TOKEN])
for part in (glance, jobs):
    router.include_router(part.router, prefix="/butlers/{name}/memory")
for part in (sessions, data, removal):
    router.include_router(part.router, prefix="/butlers/{name}")
router.include_router(operation_routes())
router.include_router(fleet.router)
router.include_router(backups.router)
