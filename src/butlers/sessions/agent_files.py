"""Change settings files of other programs: read, edit, write back atomically, give back."""

import contextlib
import difflib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from butlers.atomic_files import replace_file
from butlers.errors import Conflict, Unavailable
from butlers.sessions import json_text

NEW_FILE_MODE = 0o644
Edit = Callable[[Any], None]
_YAML_ENTRY = re.compile(r"^([ \t]+)(butlers-[\w-]+):\n(?:\1[ \t]+.*\n)*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FileChange:
    """The text of a file before and after a change; None means no file."""

    path: Path
    before: str | None
    after: str | None
    is_empty: bool = False
    """Whether the text after it says nothing, so that a file of ours may go."""
    mode: int = NEW_FILE_MODE
    made: tuple[str, ...] = ()
    """The directories that go with the file if nothing else is in them, the innermost first."""

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
            for directory in self.made:
                with contextlib.suppress(OSError):  # it has other files
                    os.rmdir(directory)
        elif self.is_needed:
            _write(self.path, self.after, self.mode)


def read(path: Path) -> str | None:
    """Return the text of a file, its line ends as they are; None if there is none."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Unavailable(f"cannot read {path} ({error}); nothing was changed") from error


def settings_change(path: Path, part: Mapping[str, Any], edit: Edit) -> FileChange:
    """Return the change that an edit makes to a file of the form that an agent's table names."""
    form = part.get("format", "json")
    if form == "toml":
        return toml_change(path, edit)
    if form == "yaml":
        return yaml_change(path, part["key"], edit)
    return json_change(path, edit, part.get("beside", {}), comments=form == "jsonc")


def json_change(
    path: Path, edit: Edit, beside: Mapping[str, Any] | None = None, *, comments: bool = False
) -> FileChange:
    """Return the change that an edit makes to a JSON file; all that is not changed stays."""
    before = read(path)
    text = before if before and before.strip() else "{}\n"
    try:
        value, unchanged = (json_text.parse(text, comments=comments) for _ in range(2))
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(value, dict):
        raise _damaged(path, "it is not an object")
    edit(value)
    after = before if value == unchanged else json_text.edited(text, value)
    return FileChange(path, before, after, is_empty=value in ({}, beside))


def toml_change(path: Path, edit: Edit) -> FileChange:
    """Return the change that an edit makes to a TOML file; comments and layout stay."""
    before = read(path)
    try:
        document, unchanged = (tomlkit.parse(before or "") for _ in range(2))
    except TOMLKitError as error:
        raise _damaged(path, str(error)) from error
    edit(document)
    if document.unwrap() == unchanged.unwrap():
        return FileChange(path, before, before)
    after = tomlkit.dumps(document)
    if after.endswith("\n\n") and not (before or "").endswith("\n\n"):
        after = after[:-1]  # the blank line before a table that was removed
    return FileChange(path, before, after, is_empty=not after.strip())


def yaml_change(path: Path, key: str, edit: Edit) -> FileChange:
    """Return the change that an edit makes to our entries under a key of YAML; no more is read."""
    before = read(path)
    text = before or ""
    found = {each[2]: each for each in _YAML_ENTRY.finditer(text)}
    settings: dict[str, Any] = {key: dict.fromkeys(found)}
    edit(settings)
    entries = settings.get(key, {})
    for name, each in found.items():
        if _yaml_entry(each[1], name, entries.get(name)) != each[0]:
            text = text.replace(each[0], "", 1)
    for name in entries:
        if not re.search(rf"^[ \t]+{name}:\n", text, re.M):
            text = _with_yaml(path, text, key, name, entries[name])
    return FileChange(path, before, text, is_empty=text.strip() in ("", f"{key}:"))


def _with_yaml(path: Path, text: str, key: str, name: str, entry: Mapping[str, Any]) -> str:
    """Add an entry as the first under a key."""
    head = re.search(rf"^{key}:[ \t]*(\{{\}})?[ \t]*(?:#.*)?\n", text, re.M)
    if head is None:
        if re.search(rf"^{key}\b", text, re.M):
            raise _damaged(path, f"the form of {key} is not understood")
        text += "" if text[-1:] in ("", "\n") else "\n"
        return f"{text}{key}:\n" + _yaml_entry("  ", name, entry)
    child = re.compile(r"(?:[ \t]*(?:#.*)?\n)*([ \t]+)").match(text, head.end())
    line = head[0].replace(" {}", "") + _yaml_entry(child[1] if child else "  ", name, entry)
    return text[: head.start()] + line + text[head.end() :]


def _yaml_entry(indent: str, name: str, entry: Mapping[str, Any] | None) -> str:
    fields = (
        f"{indent * 2}{field}: {json.dumps(value)}\n" for field, value in (entry or {}).items()
    )
    return f"{indent}{name}:\n{''.join(fields)}"


def table(settings: Any, path: Path, name: str) -> Any:
    """Return the table of this name in the settings of a file; create it if it is missing."""
    entries = settings.setdefault(name, {})
    if not isinstance(entries, dict):
        raise _damaged(path, f"{name} is not a table")
    return entries


def _damaged(path: Path, why: str) -> Unavailable:
    return Unavailable(f"{path} cannot be changed safely ({why}); repair it. Nothing was changed")


def _write(path: Path, text: str, mode: int) -> None:
    # A symbolic link stays one.
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o7777 if target.exists() else mode
        replace_file(target, text, mode)
    except OSError as error:
        raise Unavailable(f"cannot write {path} ({error.strerror})") from error
