"""The style, the script and the icon of the pages."""

from pathlib import Path

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

_DIRECTORY = Path(__file__).parent / "static"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Asked for again each time, and not sent again while it is the same.
    "Cache-Control": "no-cache",
}


class Assets(StaticFiles):
    """Files of the package, served to anybody and fit for nothing but our own pages."""

    def __init__(self) -> None:
        super().__init__(directory=_DIRECTORY)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file, with what a browser may do with it."""
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response
