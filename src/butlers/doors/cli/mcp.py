"""`butlers mcp`: a butler's tools over standard input and output."""

from typing import Annotated

import typer

from butlers.doors.cli.options import HomeOption


def serve(
    name: Annotated[str, typer.Argument(help="Which butler.")] = "general",
    home: HomeOption = None,
) -> None:
    """Serve a butler's MCP tools on stdio, as the command in an agent's configuration.

    No token is needed: whoever may start it is the butler's own configured tenant.
    """
    import asyncio

    from butlers.butler.home import Home
    from butlers.doors.mcp.stdio import serve_stdio
    from butlers.logs import configure

    place = Home.locate(home)
    if not place.butler_names():
        place.ensure_general()
    configure("warning")
    asyncio.run(serve_stdio(place, name))
