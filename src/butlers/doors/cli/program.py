"""How this program is typed here, so that what it prints can be typed as it stands."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from butlers.butler.home import Home

_NAME = "butlers"


def typed(home: "Home", *arguments: str) -> str:
    """A command for this home that works in any directory of this user."""
    default = Path(os.path.abspath(Path("~/.butlers").expanduser()))
    where = [] if home.root == default else ["--home", str(home.root)]
    return shlex.join([*_program(), *arguments, *where])


def _program() -> list[str]:
    """The program as it was started: by its name if that finds it, else by its path."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py":
        return [sys.executable, "-m", _NAME]
    found = shutil.which(_NAME)
    if found is not None and started.exists() and os.path.samefile(found, started):
        return [_NAME]
    return [str(started.absolute())]
