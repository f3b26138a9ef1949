"""Stored text as it may stand in a line of the context block, where it can imitate nothing.

A backslash stands before what would look like the block's own signs: the brackets of a subject, the
figures in parentheses at a line's end, a heading, the start of another line. A backslash of the
text's own is doubled where it would be taken for one of these, so that the text can be read back.
"""

import re

from butlers.kernel.secrets import masked, masked_value
from butlers.kernel.text import one_line

_OWN_BACKSLASH = r"\\(?=[\\\[\](#-]|$)"
_IMITATED = (
    r"\](?=\s?\[)"  # the end of a subject and the start of a predicate
    r"|\((?=\s?(?:confidence|maturity|effectiveness)\b)"
    r"|(?<!\S)#(?=#*(?:\s|$))"
)
_IN_TEXT = re.compile(rf"{_OWN_BACKSLASH}|{_IMITATED}", re.IGNORECASE)
_AT_THE_START = re.compile(rf"{_OWN_BACKSLASH}|{_IMITATED}|^-(?=\s|$)|^\[", re.IGNORECASE)
_IN_BRACKETS = re.compile(rf"{_OWN_BACKSLASH}|{_IMITATED}|[\[\]]", re.IGNORECASE)


def escaped(text: str, name: str = "") -> str:
    """The text on one line, without what nobody sees and without secrets; it goes by a name."""
    line = one_line(text)
    return (masked_value(one_line(name), line) if name else masked(line)).text


def within_brackets(line: str) -> str:
    """A line of text that stands between brackets."""
    return _escaped(_IN_BRACKETS, line)


def after_brackets(line: str) -> str:
    """A line of text that something of the block's own stands before."""
    return _escaped(_IN_TEXT, line)


def at_the_start(line: str) -> str:
    """A line of text that a line of the block starts with."""
    return _escaped(_AT_THE_START, line)


def _escaped(imitating: re.Pattern[str], text: str) -> str:
    return imitating.sub(lambda found: f"\\{found[0]}", text)
