"""The HTTP API, described by OpenAPI: per butler, and over the whole fleet."""

from fastapi import APIRouter

from butlers.interfaces.http import backups, data, fleet, jobs, overview, removal, sessions
from butlers.interfaces.http.butler_access import DOCUMENTED_TOKEN
from butlers.interfaces.http.faults import FAILURES
from butlers.interfaces.http.routes import operation_routes

router = APIRouter(prefix="/api", responses=FAILURES, dependencies=[DOCUMENTED_TOKEN])
for part in (overview, jobs):
    router.include_router(part.router, prefix="/butlers/{name}/memory")
for part in (sessions, data, removal):
    router.include_router(part.router, prefix="/butlers/{name}")
router.include_router(operation_routes())
router.include_router(fleet.router)
router.include_router(backups.router)
