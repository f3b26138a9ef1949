"""The entry point of `butlers`; the only module that imports both command line and web pages."""

import gc
import sys
from typing import TYPE_CHECKING

from butlers.forward import forward

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from butlers.interfaces.http.app_state import AppState


def main() -> None:
    """Run a command; `butlers mcp` is forwarded before anything else is imported."""
    gc.set_threshold(20_000, 20)  # imports and rows make many objects, few of them in cycles
    if sys.argv[1:2] != ["mcp"] or not forward(sys.argv[2:]):
        from butlers.interfaces.cli import main as run_command

        run_command(_pages)


def _pages(app_state: "AppState") -> "Starlette":
    """Build the pages and the API, imported only by a command that serves them."""
    from butlers.interfaces.web.app import build

    return build(app_state)
