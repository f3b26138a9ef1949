"""The web application: the HTTP API and the pages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from butlers import __version__
from butlers.interfaces.http.app_state import AppState
from butlers.interfaces.http.backups import BackupChecks
from butlers.interfaces.http.fanout import Fleet
from butlers.interfaces.http.faults import answer_failures
from butlers.interfaces.http.jobs import JobRuns
from butlers.interfaces.http.request_limits import Envelope
from butlers.interfaces.http.routes import router as api_router
from butlers.interfaces.web import butler, entities, fleet, memories, sign_in
from butlers.interfaces.web.browser_sessions import BrowserSessions, Recognition
from butlers.interfaces.web.pages import explained
from butlers.kernel.word_tables import load_tables

_ABOUT = (
    "Read, search and correct what butlers remember. A token gives access to one butler as one "
    "tenant; no argument changes that."
)


def build(app_state: AppState) -> FastAPI:
    """Build the API and the pages."""
    sessions = BrowserSessions(app_state)
    app = FastAPI(
        title="Butlers",
        version=__version__,
        description=_ABOUT,
        openapi_url="/api/openapi.json",
        docs_url=None,  # they would load scripts from another host
        redoc_url=None,
        middleware=[Middleware(Envelope), Middleware(Recognition, sessions=sessions)],
        lifespan=_lifespan,
        redirect_slashes=False,
    )
    app.state.app_state = app_state
    app.state.sessions = sessions
    app.state.fleet = Fleet(app_state)
    app.state.job_runs = JobRuns()
    app.state.backup_checks = BackupChecks()
    answer_failures(app, explained)
    app.include_router(api_router)
    # Fixed paths before those that take any word in the same place.
    for part in (sign_in, fleet, butler, entities, memories):
        app.include_router(part.router, include_in_schema=False)
    app.mount("/static", Assets())
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open connections to remote butlers; on shutdown, end the jobs started here."""
    async with app.state.fleet.open(), app.state.job_runs.open():
        yield


_HEADERS: dict[str, str] = load_tables(__file__, "headers.toml")["files"]


class Assets(StaticFiles):
    """Static files of the package, for everybody."""

    def __init__(self) -> None:
        super().__init__(directory=Path(__file__).parent / "static")

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file with security headers."""
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response
