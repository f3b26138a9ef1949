"""Documents as memories: what an instruction file asks for is a rule, the rest is what was read.

A file is read section by section. An item of a list that says what to do or not to do is a rule;
a section is an episode, which names its file and heading, in as many pieces as it takes.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from butlers.memory.model import New, NewEpisode, NewRule, Origin

_HEADING = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$")
_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(.+)$")
_FENCE = re.compile(r"^[ \t]*(```|~~~)")
_MARKUP = re.compile(r"\*\*|__|`")
# Said in any place of an item, and at its beginning.
_RULING = re.compile(
    r"\b(?:always|never|must(?: not)?|do not|don['’]t|should(?: not|n['’]t)?|prefer|avoid"
    r"|immer|nie(?:mals)?|nicht|siempre|nunca|toujours|jamais)\b",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"(?:use|run|write|keep|add|ask|check|test|put|name|follow|make|include|read|commit|update"
    r"|remove|format|return|handle|ensure|leave|call|document|verify|stick|start|begin|end|stop"
    r"|no|only|treat|assume|explain|answer|reply|respond|speak|be|reuse|split|mock|validate)\b",
    re.IGNORECASE,
)
_SHORTEST, _LONGEST = 8, 1_000
_PIECE = 6_000


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """A part of a document under its headings."""

    heading: str
    text: str


def markdown_files(folder: Path) -> list[Path]:
    """The Markdown files of a folder, those in hidden and dependency folders left out."""
    if folder.is_file():
        return [folder]
    return sorted(
        file
        for file in folder.rglob("*.md")
        if file.is_file()
        and not any(
            part.startswith(".") or part in ("node_modules", "venv", "site-packages")
            for part in file.relative_to(folder).parts[:-1]
        )
    )


def memories(name: str, text: str, butler: str, metadata: dict[str, Any]) -> Iterator[New]:
    """The memories of a document: rules first, then its sections as episodes."""
    about = {**metadata, "file": name}
    for section in sections(text):
        for rule in rules(section.text):
            key = _key("rule", rule)
            noted = {**about, "section": section.heading}
            yield NewRule(
                rule,
                metadata=noted,
                source_butler=butler,
                idempotency_key=key,
                origin=Origin.DOCUMENT,
            )
        for piece in _pieces(section.text):
            told = " › ".join(filter(None, (name, section.heading)))
            content = f"{told}\n\n{piece}"
            noted = {**about, "section": section.heading}
            key = _key("document", content)
            yield NewEpisode(
                content, butler, metadata=noted, idempotency_key=key, origin=Origin.DOCUMENT
            )


def sections(text: str) -> Iterator[DocumentSection]:
    """The sections of a Markdown text that say something."""
    trail: list[tuple[int, str]] = []
    lines: list[str] = []
    fenced = False
    for line in text.replace("\r\n", "\n").split("\n"):
        fenced = fenced != bool(_FENCE.match(line))
        found = None if fenced else _HEADING.match(line)
        if found is None:
            lines.append(line)
            continue
        yield from _section(trail, lines)
        level, lines = len(found[1]), []
        trail = [*(one for one in trail if one[0] < level), (level, found[2])]
    yield from _section(trail, lines)


def rules(text: str) -> Iterator[str]:
    """The items of lists in a text that say what to do or not to do."""
    fenced = False
    for line in text.split("\n"):
        fenced = fenced != bool(_FENCE.match(line))
        item = None if fenced else _ITEM.match(line)
        said = _MARKUP.sub("", item[1]).strip() if item else ""
        is_ruling = bool(_ORDER.match(said) or _RULING.search(said)) and not said.endswith("?")
        if is_ruling and _SHORTEST <= len(said) <= _LONGEST:
            yield said


def _section(trail: list[tuple[int, str]], lines: list[str]) -> Iterator[DocumentSection]:
    text = "\n".join(lines).strip()
    if text:
        yield DocumentSection(" › ".join(heading for _, heading in trail), text)


def _pieces(text: str) -> Iterator[str]:
    """A text in pieces of whole paragraphs, each short enough to be an episode."""
    piece = ""
    for paragraph in re.split(r"\n[ \t]*\n", text):
        if piece and len(piece) + len(paragraph) > _PIECE:
            yield piece
            piece = ""
        piece = f"{piece}\n\n{paragraph}" if piece else paragraph
        while len(piece) > _PIECE:
            yield piece[:_PIECE]
            piece = piece[_PIECE:]
    if piece.strip():
        yield piece


def _key(kind: str, text: str) -> str:
    return f"import:{kind}:{hashlib.sha256(text.encode()).hexdigest()[:32]}"
