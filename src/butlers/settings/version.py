"""The newest version of butlers that used a home, which an older one says it needs."""

import re
from contextlib import suppress
from pathlib import Path

from butlers import __version__
from butlers.atomic_files import replace_file

VERSION_FILE = "version"


def note_version(home: Path) -> None:
    """Write this version into a home, unless a newer one or the same used it before."""
    if _numbers(_recorded(home)) < _numbers(__version__):
        replace_file(home / VERSION_FILE, f"{__version__}\n")


def newer_version(file: Path) -> list[str]:
    """Return a line if a newer version used the home of a settings file, else none."""
    home = next((place for place in (file.parent, *file.parents[2:3]) if _recorded(place)), None)
    recorded = _recorded(home) if home else ""
    if _numbers(recorded) <= _numbers(__version__):
        return []
    return [
        f"{home}: was last used by butlers {recorded}, and this is butlers {__version__}; "
        f"install {recorded} or newer"
    ]


def _recorded(home: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return (home / VERSION_FILE).read_text().strip()
    return ""


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
