"""Change settings files of other programs: read, edit, write back atomically."""

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
# Directories that exist for settings alone: removed with their last file.
_OWN_DIRECTORIES = (".claude", ".codex")


@dataclass(frozen=True, slots=True)
class FileChange:
    """The text of a file before and after a change; None means no file."""

    path: Path
    before: str | None
    after: str | None

    @property
    def is_needed(self) -> bool:
        """Whether the file differs from what it is to be."""
        return self.before != self.after

    def diff(self) -> str:
        """Return the change as a unified diff."""
        texts = (self.before, self.after)
        old, new = ("/dev/null" if text is None else str(self.path) for text in texts)
        before, after = ((text or "").splitlines(keepends=True) for text in texts)
        lines = difflib.unified_diff(before, after, old, new)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def apply(self) -> None:
        """Write the file atomically; Conflict if it was changed since it was read."""
        if read(self.path) != self.before:
            raise Conflict(f"{self.path} was changed meanwhile; run the command again")
        if self.after is None:
            self.path.unlink(missing_ok=True)
            if self.path.parent.name in _OWN_DIRECTORIES:
                with contextlib.suppress(OSError):  # it has other files
                    self.path.parent.rmdir()
        elif self.is_needed:
            _write(self.path, self.after)


def read(path: Path) -> str | None:
    """Return the text of a file; None if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Unavailable(f"cannot read {path} ({error}); nothing was changed") from error


def json_change(path: Path, edit: Callable[[dict[str, Any]], None]) -> FileChange:
    """Return the change that an edit makes to a JSON file; order and indentation stay."""
    before = read(path)
    value = _parsed_json(path, before)
    edit(value)
    if before is not None and value == _parsed_json(path, before):
        return FileChange(path, before, before)
    indent = re.search(r"\n([ \t]+)\S", before or "")
    text = json.dumps(value, indent=indent[1] if indent else 2, ensure_ascii=False)
    return FileChange(path, before, text + "\n" if value else None)


def toml_change(path: Path, edit: Callable[[tomlkit.TOMLDocument], None]) -> FileChange:
    """Return the change that an edit makes to a TOML file; comments and layout stay."""
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
        after = after[:-1]  # the blank line before a table that was removed
    return FileChange(path, before, after if after.strip() else None)


def table(settings: Any, path: Path, name: str) -> Any:
    """Return the table of this name in the settings of a file; create it if it is missing."""
    entries = settings.setdefault(name, {})
    if not isinstance(entries, dict):
        raise _damaged(path, f"{name} is not a table")
    return entries


def _parsed_json(path: Path, text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text) if text and text.strip() else {}
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(value, dict):
        raise _damaged(path, "it is not an object")
    return value


def _damaged(path: Path, why: str) -> Unavailable:
    return Unavailable(f"{path} cannot be changed safely ({why}); repair it. Nothing was changed")


def _write(path: Path, text: str) -> None:
    # A symbolic link stays one.
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o7777 if target.exists() else NEW_FILE_MODE
        replace_file(target, text, mode)
    except OSError as error:
        raise Unavailable(f"cannot write {path} ({error.strerror})") from error
