"""Settings files of other programs: read, changed in one place, and written back at once."""

import contextlib
import difflib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from butlers.atomic_files import replace_file
from butlers.errors import Conflict, Unavailable

NEW_FILE_MODE = 0o644
# Directories that exist for settings alone: the last file takes them along.
_OWN_DIRECTORIES = (".claude", ".codex")


@dataclass(frozen=True, slots=True)
class FileChange:
    """What a file says and what it is to say; None stands for no file."""

    path: Path
    before: str | None
    after: str | None

    @property
    def is_needed(self) -> bool:
        """Whether the file is not yet as it is to be."""
        return self.before != self.after

    def diff(self) -> str:
        """The change as people read it."""
        before, after = (
            (text or "").splitlines(keepends=True) for text in (self.before, self.after)
        )
        old = "/dev/null" if self.before is None else str(self.path)
        new = "/dev/null" if self.after is None else str(self.path)
        lines = difflib.unified_diff(before, after, old, new)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def apply(self) -> None:
        """Make it so, all at once; a file that changed since it was read stays as it is."""
        if read(self.path) != self.before:
            raise Conflict(f"{self.path} was changed meanwhile; run the command again")
        if self.after is None:
            _delete(self.path)
        elif self.is_needed:
            _write(self.path, self.after)


def read(path: Path) -> str | None:
    """What a file says; None where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Unavailable(f"cannot read {path} ({error}); nothing was changed") from error


def json_change(path: Path, edit: Callable[[dict[str, Any]], None]) -> FileChange:
    """The change that an edit makes to a JSON file; what it leaves alone keeps its order."""
    before = read(path)
    value = _parsed_json(path, before)
    edit(value)
    if before is not None and value == _parsed_json(path, before):
        return FileChange(path, before, before)
    # Indented as it was.
    found = re.search(r"\n([ \t]+)\S", before or "")
    text = json.dumps(value, indent=found[1] if found else 2, ensure_ascii=False)
    return FileChange(path, before, text + "\n" if value else None)


def toml_change(path: Path, edit: Callable[[tomlkit.TOMLDocument], None]) -> FileChange:
    """The change that an edit makes to a TOML file; comments and layout stay."""
    before = read(path)
    try:
        document = tomlkit.parse(before or "")
        unchanged = tomlkit.parse(before or "")
    except TOMLKitError as error:
        raise _damaged(path, str(error)) from error
    edit(document)
    if before is not None and document.unwrap() == unchanged.unwrap():
        return FileChange(path, before, before)
    after = tomlkit.dumps(document)
    if after.endswith("\n\n") and not (before or "").endswith("\n\n"):
        after = after[:-1]  # what stood between a table that is gone and the one before it
    return FileChange(path, before, after if after.strip() else None)


def table(settings: Any, path: Path, name: str) -> Any:
    """The table of this name in the settings of a file, made where it is missing."""
    found = settings.setdefault(name, {})
    if not isinstance(found, dict):
        raise _damaged(path, f"{name} is not a table")
    return found


def _parsed_json(path: Path, text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text) if text and text.strip() else {}
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(value, dict):
        raise _damaged(path, "it is not an object")
    return value


def _damaged(path: Path, why: str) -> Unavailable:
    return Unavailable(f"{path} cannot be changed safely ({why}); mend it. Nothing was changed")


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)
    if path.parent.name in _OWN_DIRECTORIES:
        with contextlib.suppress(OSError):  # it holds something else
            path.parent.rmdir()


def _write(path: Path, text: str) -> None:
    # A link to a file kept elsewhere stays a link.
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o7777 if target.exists() else NEW_FILE_MODE
        replace_file(target, text, mode)
    except OSError as error:
        raise Unavailable(f"cannot write {path} ({error.strerror})") from error
