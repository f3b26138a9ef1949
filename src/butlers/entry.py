"""The entry point of `butlers`; the only module that imports both command line and web pages."""

import gc
import sys
from typing import TYPE_CHECKING

from butlers.command_client import run_in_daemon
from butlers.forward import forward

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from butlers.interfaces.http.app_state import AppState


def main() -> None:
    """Run a command: in the daemon if it is up, before anything else is imported."""
    gc.set_threshold(20_000, 20)  # imports and rows make many objects, few of them in cycles
    if sys.argv[1:2] == ["mcp"] and forward(sys.argv[2:]):
        return
    code = run_in_daemon(sys.argv[1:])
    if code is None:
        from butlers.interfaces.cli import run_command

        code = run_command(sys.argv[1:], _pages)
    sys.exit(code)


def _pages(app_state: "AppState") -> "Starlette":
    """Build the pages and the API, imported only by a command that serves them."""
    from butlers.interfaces.web.app import build

    return build(app_state)
