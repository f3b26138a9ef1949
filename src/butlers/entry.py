"""Where the program begins: the command line, given the pages it serves.

Commands and pages are neighbours that know nothing of each other; only here do they meet.
"""

import sys
from typing import TYPE_CHECKING

from butlers.forward import forward

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from butlers.interfaces.http.app_state import AppState


def main() -> None:
    """Run a command; an agent's `butlers mcp` is handed on before anything else is imported."""
    if sys.argv[1:2] == ["mcp"] and forward(sys.argv[2:]):
        return
    from butlers.interfaces.cli import main as run_command

    run_command(_pages)


def _pages(app_state: "AppState") -> "Starlette":
    """The pages and the API, imported only by a command that serves them."""
    from butlers.interfaces.web.app import build

    return build(app_state)
