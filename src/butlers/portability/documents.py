"""Read Markdown documents as memories, section by section.

List items that say what to do are rules. A section is an episode with its file and heading, or
several if it is long.
"""

import codecs
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from butlers.memory.model import New, NewEpisode, NewRule, Origin

_HEADING = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$")
_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(.+)$")
_FENCE = re.compile(r"^[ \t]*(```|~~~)")
_HIDDEN = re.compile(r"\..*|node_modules|venv|site-packages").fullmatch
_MARKUP = re.compile(r"\*\*|__|`")
# Words of a rule anywhere in an item, and at its beginning.
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


def markdown_files(folder: Path) -> list[Path]:
    """List the Markdown files of a folder, without those in hidden and dependency folders."""
    if folder.is_file():
        return [folder]
    files = [file for file in sorted(folder.rglob("*.md")) if file.is_file()]
    folders = [file.relative_to(folder).parts[:-1] for file in files]
    return [
        file for file, parts in zip(files, folders, strict=True) if not any(map(_HIDDEN, parts))
    ]


def read_text(file: Path) -> str:
    """Read a text, with the mark that some editors put first; ValueError if it is none."""
    content = file.read_bytes()
    is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = content.decode("utf-16" if is_wide else "utf-8-sig", "replace")
    if "\0" in text:
        raise ValueError("found no text")
    return text


def memories(name: str, text: str, butler: str, metadata: dict[str, Any]) -> Iterator[New]:
    """Yield the memories of a document: of each section its rules, then its text as episodes."""
    for heading, section in _sections(text):
        about = {**metadata, "file": name, "section": heading}
        source: dict[str, Any] = {"metadata": about, "origin": Origin.DOCUMENT}
        for rule in _rules(section):
            yield NewRule(rule, source_butler=butler, idempotency_key=_key("rule", rule), **source)
        for piece in pieces(section):
            content = " › ".join(filter(None, (name, heading))) + f"\n\n{piece}"
            key = _key("document", content)
            yield NewEpisode(content, butler, idempotency_key=key, **source)


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield heading and text of each section that is not empty."""
    trail: list[tuple[int, str]] = []
    lines: list[str] = []
    fenced = False
    for line in text.replace("\r\n", "\n").split("\n"):
        fenced = fenced != bool(_FENCE.match(line))
        heading = None if fenced else _HEADING.match(line)
        if heading is None:
            lines.append(line)
            continue
        yield from _section(trail, lines)
        level, lines = len(heading[1]), []
        trail = [*(above for above in trail if above[0] < level), (level, heading[2])]
    yield from _section(trail, lines)


def _rules(text: str) -> Iterator[str]:
    """Yield the list items of a text that say what to do or not to do."""
    fenced = False
    for line in text.split("\n"):
        fenced = fenced != bool(_FENCE.match(line))
        item = None if fenced else _ITEM.match(line)
        rule = _MARKUP.sub("", item[1]).strip() if item else ""
        is_rule = bool(_ORDER.match(rule) or _RULING.search(rule)) and not rule.endswith("?")
        if is_rule and _SHORTEST <= len(rule) <= _LONGEST:
            yield rule


def _section(trail: list[tuple[int, str]], lines: list[str]) -> Iterator[tuple[str, str]]:
    text = "\n".join(lines).strip()
    if text:
        yield " › ".join(heading for _, heading in trail), text


def pieces(text: str) -> Iterator[str]:
    """Divide a text into pieces of whole paragraphs, each short enough for an episode."""
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
