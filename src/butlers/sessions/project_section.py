"""A marked section of an agent's instruction file: a project's tried rules and present decisions.

It is written anew whenever a session of the project was stored, and taken out again without a
trace. A file from which the marks were removed is left alone.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from butlers.atomic_files import draft_of, replace_file
from butlers.kernel.secrets import masked
from butlers.kernel.text import one_line
from butlers.memory.model import Maturity, Origin
from butlers.memory.operations import OPERATIONS
from butlers.memory.operations.operation_context import OperationContext
from butlers.memory.policy.scopes import PROJECT

FILES = ("AGENTS.md", "CLAUDE.md")
_BEGIN = "<!-- butlers: begin. `butlers project write --remove` takes this section out. -->"
_END = "<!-- butlers: end -->"
_MOST, _LONGEST = 20, 240
_TRIED = (Maturity.PROVEN, Maturity.ESTABLISHED)


@dataclass(frozen=True, slots=True)
class Section:
    """A file that holds a section, and what was put before it."""

    file: str
    butler: str
    tenant: str
    project: str
    before: str = ""


class SectionFile:
    """The sections that this home keeps, in a file of their own."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def all(self) -> list[Section]:
        """List every section; none if the file cannot be read."""
        with suppress(OSError, ValueError, TypeError):
            return [Section(**row) for row in json.loads(self._file.read_text("utf-8"))]
        return []

    def put(self, file: str, section: Section | None) -> None:
        """Note the section of a file, or that it has none."""
        others = [one for one in self.all() if one.file != file]
        rows = [asdict(one) for one in (*others, *filter(None, [section]))]
        replace_file(self._file, json.dumps(rows, indent=1) + "\n")


async def section_of(ctx: OperationContext, project: str) -> str:
    """Return the section of a project; nothing of low trust, and no secret."""
    where = {"scope": f"{PROJECT}{project}", "state": "active", "limit": 100}
    rules = (await OPERATIONS["list_rules"].perform(ctx, **where))["items"]
    decided = await OPERATIONS["list_decisions"].perform(ctx, project=project, limit=_MOST)
    tried = [rule for rule in rules if _is_tried(rule)]
    parts = [_BEGIN]
    for title, rows in (("Rules", tried[:_MOST]), ("Present decisions", decided)):
        if rows:
            lines = (f"- {one_line(masked(row['content']).text)[:_LONGEST]}" for row in rows)
            parts += [f"## {title} of this project's memory", "", *lines, ""]
    return "\n".join([*parts, _END, ""])


def _is_tried(rule: dict[str, Any]) -> bool:
    """Whether a person stated a rule, or it proved itself."""
    is_tried = rule["maturity"] in _TRIED or Origin(rule["origin"]).is_person
    return bool(rule["trust"]) and not rule.get("quarantined") and is_tried


def write_section(file: Path, text: str, known: Section | None) -> str | None:
    """Put a section into a file, or replace the one there; return what was put before it.

    None if somebody took the marks out: the file is left alone.
    """
    found = _read(file)
    text = text.replace("\n", "\r\n") if "\r\n" in found else text
    if parts := _around(found):
        _replace(file, text.join(parts))
        return known.before if known else ""
    if known is not None:
        return None
    before = "" if not found else "\n" if found.endswith("\n") else "\n\n"
    _replace(file, f"{found}{before}{text}")
    return before


def remove_section(file: Path, before: str) -> bool:
    """Take the section out, with what was put before it; a file that held only it is deleted."""
    parts = _around(_read(file))
    if parts is None:
        return False
    rest = parts[0].removesuffix(before) + parts[1]
    _replace(file, rest) if rest else file.unlink()
    return True


def _read(file: Path) -> str:
    return file.read_bytes().decode("utf-8") if file.exists() else ""


def _around(text: str) -> tuple[str, str] | None:
    """Return what is before and after the section of a file; None if it has none."""
    begin = text.find(_BEGIN)
    end = text.find(_END, begin)
    if begin < 0 or end < 0:
        return None
    after = text[end + len(_END) :]
    return text[:begin], after.removeprefix("\r").removeprefix("\n")


async def refresh(sections: SectionFile, butler: str, ctx: OperationContext) -> None:
    """Write the sections of the caller's project anew; one that was taken out is kept no longer."""
    project = (await ctx.store_scope("")).removeprefix(PROJECT)
    for one in sections.all():
        ours = (one.butler, one.tenant, one.project) == (butler, ctx.lineage.tenant_id, project)
        if ours and Path(one.file).exists():
            text = await section_of(replace(ctx, project=None), project)
            if write_section(Path(one.file), text, one) is None:
                sections.put(one.file, None)


def _replace(file: Path, text: str) -> None:
    mode: Any = file.stat().st_mode & 0o777 if file.exists() else 0o644
    with draft_of(file, mode) as stream:
        stream.write(text.encode())
