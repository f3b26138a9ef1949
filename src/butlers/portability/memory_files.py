"""Write a project's memory as Markdown that people edit and commit, and read their edits.

A line is a memory and ends with its id in a comment. `.butlers.json` beside the files holds what
they said when they were written: so an edit is told from a change in the memory, and a line that
was deleted from one that was never there.
"""

import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from butlers.atomic_files import replace_file
from butlers.errors import InvalidInput
from butlers.kernel.secrets import masked
from butlers.kernel.text import one_line
from butlers.memory.model import MemoryType
from butlers.memory.operations import OPERATIONS
from butlers.memory.operations.operation_context import OperationContext

STATE = ".butlers.json"
DECISIONS, RULES, FACTS, SESSIONS = "decisions.md", "rules.md", "facts.md", "sessions/"
_ID_LENGTH = 45
_PAGE, _LONGEST, _SHARED = 100, 600, 0o644
_ID = re.compile(r"<!-- ([0-9a-f-]{36}) -->$")
_TITLES = {
    DECISIONS: "Present decisions\n\nEdit a line to correct it, delete it to forget it.",
    RULES: "Rules\n\nEdit a line to correct it, delete it to forget it, add one.",
    FACTS: "Facts\n\nEdit a line to correct it, delete it to forget it, or add one under a "
    "subject: `- predicate: what holds`.",
    SESSIONS: "Sessions of {day} (UTC)\n\nDelete a line to forget it. Edits are not read here.",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file: a memory, or what somebody wrote (no id)."""

    file: str
    text: str
    id: str = ""
    group: str = ""
    """The heading above it: the subject of a fact."""
    prefix: str = ""
    """The beginning that is not its content: the predicate of a fact, the time of an episode."""
    mark: str = "- "
    """What it begins with; nothing for text between the memories."""

    @property
    def type(self) -> MemoryType:
        """The type of memory that a file holds."""
        types = {RULES: MemoryType.RULE, FACTS: MemoryType.FACT}
        return types.get(self.file, MemoryType.EPISODE)


async def read_memory(ctx: OperationContext, scope: str, project: str) -> list[Line]:
    """Return the lines of a project's current memories; nothing of low trust, and no secret."""
    found = [one async for one in _items(ctx, "list_facts", scope=scope, state="active")]
    lines = [
        _line(FACTS, row, row["content"], row["subject"], f"{row['predicate']}: ")
        for row in sorted(found, key=lambda row: (row["subject"], row["predicate"], row["id"]))
    ]
    found = [one async for one in _items(ctx, "list_rules", scope=scope, state="active")]
    rules = sorted(found, key=lambda row: (row["created_at"], row["id"]))
    lines += [_line(RULES, row, row["content"]) for row in rules]
    decided = await OPERATIONS["list_decisions"].perform(ctx, project=project, limit=_PAGE)
    lines += [_line(DECISIONS, row, row["content"]) for row in decided]
    found = [one async for one in _items(ctx, "list_episodes", butler=scope, state="active")]
    lines += sorted(map(_of_session, found), key=lambda line: (line.file, line.prefix, line.id))
    return lines


def read_files(directory: Path) -> list[Line]:
    """Return the lines of the files of a directory."""
    paths = [Path(DECISIONS), Path(RULES), Path(FACTS)]
    paths += [p.relative_to(directory) for p in sorted(directory.glob(f"{SESSIONS}*.md"))]
    return [line for path in paths for line in _lines_in(directory, path)]


def read_state(directory: Path) -> dict[str, Any]:
    """Return what was written last: the scope, and of each id its file and its text's hash."""
    file = directory / STATE
    try:
        return dict(json.loads(file.read_text("utf-8")))
    except FileNotFoundError:
        return {"lines": {}}
    except (ValueError, OSError) as error:
        raise InvalidInput(
            f"{file}: it cannot be read ({error}); delete it to write the files anew"
        ) from None


def write_files(directory: Path, scope: str, lines: Sequence[Line], kept: Sequence[Line]) -> int:
    """Write the lines, `kept` ones in place of theirs or besides; return how many files changed."""
    texts = _texts(scope, lines, kept)
    for old in directory.glob(f"{SESSIONS}*.md"):
        if f"{SESSIONS}{old.name}" not in texts:
            old.unlink()
    changed = [name for name, text in texts.items() if _text(directory / name) != text]
    for name in changed:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        replace_file(directory / name, texts[name], _SHARED)
    return len(changed)


def _texts(scope: str, lines: Sequence[Line], kept: Sequence[Line]) -> dict[str, str]:
    """Return the text of every file, the state last: what was not written is found again."""
    by_file: dict[str, list[Line]] = {name: [] for name in (DECISIONS, RULES, FACTS)}
    instead, ids = {line.id: line for line in kept}, {line.id for line in lines}
    written = [instead.get(line.id, line) for line in lines]
    for line in (*written, *(line for line in kept if line.id not in ids)):
        by_file.setdefault(line.file, []).append(line)
    texts = {name: _rendered(name, some) for name, some in by_file.items()}
    known = {line.id: [line.file, fingerprint(line)] for line in lines}
    state = {"scope": scope, "lines": dict(sorted(known.items()))}
    return {**texts, STATE: json.dumps(state, indent=0) + "\n"}


def fingerprint(line: Line) -> str:
    """Return what identifies a line's text."""
    return hashlib.sha256(f"{line.prefix}{line.text}".encode()).hexdigest()[:16]


async def _items(ctx: OperationContext, name: str, **where: Any) -> AsyncIterator[dict[str, Any]]:
    """Yield every item of a listing that is trusted."""
    page: dict[str, Any] = {"next_cursor": ""}
    while page["next_cursor"] is not None:
        cursor = page["next_cursor"] or None
        page = await OPERATIONS[name].perform(ctx, limit=_PAGE, cursor=cursor, **where)
        for item in page["items"]:
            if item["trust"] and not item.get("quarantined"):
                yield item


def _line(file: str, row: Any, text: str, group: str = "", prefix: str = "") -> Line:
    plain = one_line(masked(text).text)
    return Line(file, plain, str(row["id"]), one_line(group), one_line(prefix) + " " * bool(prefix))


def _of_session(row: dict[str, Any]) -> Line:
    said = datetime.fromisoformat(row["said_at"] or row["created_at"]).astimezone(UTC)
    text = row["content"] if len(row["content"]) < _LONGEST else f"{row['content'][:_LONGEST]} …"
    return _line(f"{SESSIONS}{said:%Y-%m-%d}.md", row, text, prefix=f"{said:%H:%M}")


def _rendered(file: str, lines: Sequence[Line]) -> str:
    parts, groups = [_title(file)], dict[str, list[Line]]()
    for line in lines:
        groups.setdefault(line.group, []).append(line)
    for group, some in groups.items():
        parts.append(f"\n## {_escaped(group)}\n\n" if group else "\n")
        for line in some:
            id = f" <!-- {line.id} -->" if line.id else ""
            parts.append(f"{line.mark}{_escaped(line.prefix + line.text)}{id}\n")
    return "".join(parts)


def _title(file: str) -> str:
    title = _TITLES[SESSIONS if file.startswith(SESSIONS) else file]
    return f"# {title.format(day=Path(file).stem)}\n"


def _lines_in(directory: Path, path: Path) -> Iterator[Line]:
    group, title = "", _title(path.as_posix()).splitlines()
    for raw in (_text(directory / path) or "").splitlines():
        if raw.startswith("## "):
            group = _plain(raw[3:].strip())
        elif raw.strip() and raw not in title:
            mark, text = ("- ", raw[2:]) if raw.startswith("- ") else ("", raw)
            found = _ID.search(text.rstrip()[-_ID_LENGTH:]) if mark else None
            text = text.rstrip()[: -_ID_LENGTH if found else None]
            text, id = _plain(text.strip() if mark else text.rstrip()), found[1] if found else ""
            if text:
                yield Line(path.as_posix(), text, id, group, mark=mark)


def _text(file: Path) -> str | None:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return None
    except ValueError:
        raise InvalidInput(f"{file}: this is not a text file in UTF-8") from None


def _escaped(text: str) -> str:
    return text.replace("<!--", "&lt;!--").replace("-->", "--&gt;")


def _plain(text: str) -> str:
    return text.replace("&lt;!--", "<!--").replace("--&gt;", "-->")
