"""Keep the settings files of agents as they were before a connection, and give them back.

A file that nobody changed since gets its bytes back; of any other only our entries are removed.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from butlers.atomic_files import replace_file
from butlers.sessions.agent_files import FileChange


class OriginalFiles:
    """The files that connections of a home have changed: what they were, and their hash since."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def connect(self, changes: Sequence[FileChange], connection: Sequence[str]) -> None:
        """Make the changes of a connection, and keep what the files were before."""
        needed = [change for change in changes if change.is_needed]
        self._keep(needed, connection)
        for change in needed:
            change.apply()

    def disconnect(self, changes: Sequence[FileChange], connection: Sequence[str]) -> None:
        """Make the changes that end a connection, and drop what the files were before."""
        for change in changes:
            change.apply()
            self._forget(change, connection)

    def _keep(self, changes: Sequence[FileChange], connection: Sequence[str]) -> None:
        for change in changes:
            rows = self._rows(change.path)
            known = [row for row in rows if row["connection"] == [*connection]]
            if known and rows[-1] is known[0] and _is_untouched(rows, change):
                known[0]["after"] = _digest(change.after)
            elif known:  # changed by somebody since: the bytes are not ours to give back
                rows.remove(known[0])
            else:
                made = [str(each) for each in change.path.parents if not each.exists()]
                texts = {"before": change.before, "after": _digest(change.after)}
                rows.append({"connection": [*connection], "made": made, **texts})
            self._write(change.path, rows)

    def given_back(self, change: FileChange, connection: Sequence[str]) -> FileChange:
        """Return the change that ends a connection: the bytes of before, or without our entries."""
        rows = self._rows(change.path)
        row = next((row for row in rows if row["connection"] == [*connection]), None)
        if row is None:
            return replace(change, after=None) if change.is_empty else change
        change = replace(change, made=tuple(row["made"]))
        if row is rows[-1] and _is_untouched(rows, change):
            return replace(change, after=row["before"])
        gone = change.is_empty and row["before"] is None
        return replace(change, after=None) if gone else change

    def _forget(self, change: FileChange, connection: Sequence[str]) -> None:
        """Drop the file of before; a connection made right after inherits it."""
        rows = self._rows(change.path)
        at = next((at for at, row in enumerate(rows) if row["connection"] == [*connection]), None)
        if at is None:
            return
        row, above = rows[at], rows[at + 1 :]
        rows = rows[:at]
        follows = len(above) == 1 and row["after"] == _digest(above[0]["before"])
        if follows and _is_untouched(above, change):
            kept = {name: row[name] for name in ("before", "made")}
            rows.append(above[0] | kept | {"after": _digest(change.after)})
        self._write(change.path, rows)

    def _file(self, path: Path) -> Path:
        name = hashlib.sha256(os.path.realpath(path).encode()).hexdigest()[:32]
        return self._directory / f"{name}.json"

    def _rows(self, path: Path) -> list[dict[str, Any]]:
        with suppress(FileNotFoundError, ValueError):
            return list(json.loads(self._file(path).read_text("utf-8")))
        return []

    def _write(self, path: Path, rows: list[dict[str, Any]]) -> None:
        if not rows:
            self._file(path).unlink(missing_ok=True)
            return
        self._directory.mkdir(mode=0o700, exist_ok=True)
        replace_file(self._file(path), json.dumps(rows, indent=1))


def _is_untouched(rows: list[dict[str, Any]], change: FileChange) -> bool:
    """Whether a file is as the last connection left it."""
    return bool(rows) and rows[-1]["after"] == _digest(change.before)


def _digest(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()
