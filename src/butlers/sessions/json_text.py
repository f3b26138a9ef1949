"""Edit JSON as text: what is not changed keeps its bytes, its comments and its layout."""

import json
import re
from typing import Any, NamedTuple

_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_STRING_OR_LAST_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])')
_INDENT = re.compile(r"\n([ \t]+)[^ \t\r\n]")


class _Member(NamedTuple):
    """A member of an object, or an item of an array, with the offsets of its text."""

    key: Any
    start: int
    value_start: int
    end: int
    comma: int
    """Where its comma ends; 0 if none follows."""
    value: Any


class _Text:
    """A text, and copies of the same length: without comments, and without last commas too."""

    def __init__(self, raw: str) -> None:
        self.raw, self.bare = raw, _STRING_OR_COMMENT.sub(_blank, raw)
        self.strict = _STRING_OR_LAST_COMMA.sub(_blank, self.bare)
        self.newline = "\r\n" if "\r\n" in raw else "\n"
        indent = _INDENT.search(raw)
        self.unit = indent[1] if indent else "  "

    def value(self, at: int) -> tuple[Any, int]:
        """Return the value at an offset, and where it ends."""
        return json.JSONDecoder().raw_decode(self.strict, at)

    def skip(self, at: int) -> int:
        """Return where the next character that is no space stands."""
        while self.bare[at].isspace():
            at += 1
        return at

    def space_before(self, at: int) -> int:
        """Return where the spaces begin that stand before an offset; a comment is none."""
        return len(self.raw[:at].rstrip())

    def indent(self, at: int) -> str:
        """Return the indentation of the line of an offset."""
        line = self.raw[self.raw.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def dump(self, value: Any, indent: str) -> str:
        """Write a value as this text is written."""
        text = json.dumps(value, indent=self.unit, ensure_ascii=False)
        return text.replace("\n", self.newline + indent)


def parse(text: str, *, comments: bool = False) -> Any:
    """Return the value of a JSON text; ValueError if it is none."""
    # NaN, which JSON lacks, equals nothing: int refuses it.
    return json.loads(_Text(text).strict if comments else text, parse_constant=int)


def edited(raw: str, value: Any) -> str:
    """Return the text with this value: each change is made where it stands, the rest stays."""
    while True:
        text = _Text(raw)
        start = text.skip(0)
        if text.value(start)[0] == value:
            return raw
        raw = _change(text, start, value)


def _blank(match: re.Match[str]) -> str:
    return match[0] if match[0][0] == '"' else re.sub(r"[^\r\n]", " ", match[0])


def _change(text: _Text, start: int, value: Any) -> str:
    """Make the first change to the value at an offset."""
    before, end = text.value(start)
    if type(before) is not type(value) or not isinstance(value, dict | list):
        return text.raw[:start] + text.dump(value, text.indent(start)) + text.raw[end:]
    return _change_members(text, start, before, value)


def _change_members(text: _Text, start: int, before: Any, value: Any) -> str:
    """Make the first change to an object or an array."""
    members = _members(text, start)
    if isinstance(value, list) and len(value) < len(before):
        gone = next((at for at, new in enumerate(value) if new != before[at]), len(value))
        return _without(text, start, members, gone)
    wanted = value if isinstance(value, dict) else dict(enumerate(value))
    for at, member in enumerate(members):
        if member.key not in wanted:
            return _without(text, start, members, at)
        if member.value != wanted[member.key]:
            return _change(text, member.value_start, wanted[member.key])
    known = [member.key for member in members]
    key = next(key for key in wanted if key not in known)
    label = f"{json.dumps(key, ensure_ascii=False)}: " if isinstance(value, dict) else ""
    return _with(text, start, members, label, wanted[key])


def _members(text: _Text, start: int) -> list[_Member]:
    """List the members of the object or array at an offset."""
    members = list[_Member]()
    at, is_object = text.skip(start + 1), text.bare[start] == "{"
    while text.bare[at] not in "}]":
        first, key = at, len(members)
        if is_object:
            key, at = text.value(at)
            at = text.skip(text.skip(at) + 1)
        value, end = text.value(at)
        following = text.skip(end)
        comma = following + 1 if text.bare[following] == "," else 0
        members.append(_Member(key, first, at, end, comma, value))
        at = text.skip(comma or following)
    return members


def _without(text: _Text, start: int, members: list[_Member], index: int) -> str:
    """Remove a member, with the space before it and one comma."""
    raw, gone = text.raw, members[index]
    begin, end = text.space_before(gone.start), gone.comma or gone.end
    if len(members) == 1 and begin == start + 1:
        return raw[:begin] + raw[text.skip(end) :]
    if index and not gone.comma:
        last = members[index - 1].comma
        return raw[: last - 1] + raw[last:begin] + raw[end:]
    return raw[:begin] + raw[end:]


def _with(text: _Text, start: int, members: list[_Member], label: str, value: Any) -> str:
    """Add a member at the end, laid out as those before it."""
    raw, last = text.raw, members[-1].end if members else start + 1
    closing = text.skip(members[-1].comma or last if members else last)
    at = text.space_before(closing)
    comma = "," if members and members[-1].comma else ""
    space = raw[text.space_before(members[0].start) : members[0].start] if members else "\n"
    if "\n" not in space:
        added = (space or " ") + label + json.dumps(value, ensure_ascii=False) + comma
    else:
        line = text.indent(members[0].start) if members else text.indent(start) + text.unit
        added = text.newline + line + label + text.dump(value, line) + comma
        added += "" if "\n" in raw[at:closing] else text.newline + text.indent(start)
    before = raw[:last] + ("," if members and not comma else "") + raw[last:at]
    return before + added + raw[at:]
