"""Recognise sentences that state something worth keeping; the expressions are in `cues.toml`.

Two readings. Generous: what may be a statement is kept whole in an essence; a mistake costs a line.
Strict: a statement becomes a fact or rule; questions, quotations, suppositions and orders for the
task at hand do not.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files
from typing import Any

_TABLES = tomllib.loads((files(__package__) / "cues.toml").read_text(encoding="utf-8"))
_LONGEST = 600
"""A longer sentence was pasted."""


class CueKind(StrEnum):
    """What a statement is."""

    STANDING = "standing"
    NAME = "name"
    IDENTITY = "identity"
    PREFERENCE = "preference"
    DECISION = "decision"
    CONVENTION = "convention"
    CORRECTION = "correction"
    REMEMBER = "remember"


@dataclass(frozen=True, slots=True)
class Cue:
    """What a sentence states: its kind, its content and its subject."""

    kind: CueKind
    rest: str
    """The sentence without the words that only ask to remember it."""
    about: str = ""
    """The subject, where it is plain: of "my editor is …" or "no, the oven is …"."""


_IDENTITY = _TABLES["identity"]
_FRAGMENTS = {"{lasting}": _IDENTITY.pop("lasting"), "{settled}": _IDENTITY.pop("settled")}


def _compiled(texts: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    patterns = []
    for text in texts:
        for name, fragment in _FRAGMENTS.items():
            text = text.replace(name, fragment)
        patterns.append(re.compile(text, re.IGNORECASE))
    return tuple(patterns)


def _all(table: dict[str, Any], *without: str) -> tuple[re.Pattern[str], ...]:
    """Compile every expression of a table, in all languages, but those under some names."""
    return _compiled(text for name, texts in table.items() if name not in without for text in texts)


_LEAD = re.compile(
    rf"^(?:(?:{'|'.join(_TABLES['lead'])})(?:[\s,.!:;—–、，：！-]+|(?<=[\u3040-\u9fff])))+",
    re.IGNORECASE,
)
_ASKING = _TABLES["remember"]
_LANGUAGES = ("en", "de", "es", "fr", "ru")
_REMEMBER = _compiled(
    [rf"^(?:{_ASKING[name][0]}){_ASKING['that']}" for name in _LANGUAGES] + _ASKING["whole"]
)
_REMEMBER_AFTER, _REMEMBER_BACK = _compiled(_ASKING["after"]), _compiled(_ASKING["back"])
_NEVER = _compiled(_TABLES["never"]["any"])
_QUESTION, _ASKED_KINDLY = (_compiled(_TABLES["question"][name]) for name in ("any", "kind"))
_STATEMENTS = {
    kind: (_all(_TABLES[kind], "not"), _compiled(_TABLES[kind].get("not", ())))
    for kind in CueKind
    if kind not in (CueKind.CORRECTION, CueKind.REMEMBER)
}
"""The expressions of each kind, and its exceptions; the first kind that matches counts."""
_SHAPES = ("declared", "contrast", "order")
_CORRECTION = _all(_TABLES["correction"], *_SHAPES)
_DECLARED, _CONTRAST, _ORDER = (_compiled(_TABLES["correction"][name]) for name in _SHAPES)
_CUE, _TURNED_BACK = _all(_TABLES["cue"]), _all(_TABLES["turned"])


def may_state(sentence: str) -> bool:
    """Whether a sentence may state something worth keeping (the generous reading)."""
    return _matches(_CUE, sentence) is not None


def turns_back(turn: str) -> bool:
    """Whether a turn starts with a correction of what was done."""
    return _matches(_TURNED_BACK, _LEAD.sub("", turn[:_LONGEST])) is not None


def asks_to_remember(sentence: str) -> bool:
    """Whether a sentence asks to remember what it says, or what follows it."""
    return _matches(_REMEMBER, f"{_LEAD.sub('', sentence)} …") is not None


def points_back(sentence: str) -> bool:
    """Whether a sentence asks to remember the one before it."""
    return _matches(_REMEMBER_BACK, _LEAD.sub("", sentence)) is not None


def disagrees(sentence: str) -> bool:
    """Whether a sentence contradicts something."""
    return _matches(_CORRECTION, _LEAD.sub("", sentence)) is not None


def stated(sentence: str, *, disagreed: bool = False) -> Cue | None:
    """Return what a sentence states (the strict reading); after a disagreement, corrections too."""
    if not may_be_kept(sentence):
        return None
    text = _LEAD.sub("", sentence)
    asking = _matches(_REMEMBER, text)
    rest = _LEAD.sub("", text[asking.end() :].strip()) if asking else text
    cue = _statement(rest) or _correction(rest, disagreed=disagreed)
    if cue is None and (asking or _matches(_REMEMBER_AFTER, text)):
        cue = to_remember(rest)
    return cue if cue is not None and any(map(str.isalnum, cue.rest)) else None


def to_remember(text: str) -> Cue:
    """Return the cue of a sentence that the user asked to remember."""
    declared = _matches(_DECLARED, text)
    return Cue(CueKind.REMEMBER, text, declared["about"] if declared else "")


def may_be_kept(sentence: str) -> bool:
    """Whether a sentence can be a statement: not pasted, no question, no instruction."""
    text = _LEAD.sub("", sentence)
    if len(text) > _LONGEST or _matches(_NEVER, text):
        return False
    return not _matches(_QUESTION, text) or _matches(_ASKED_KINDLY, text) is not None


def _statement(text: str) -> Cue | None:
    for kind, (patterns, exceptions) in _STATEMENTS.items():
        match = _matches(patterns, text)
        if match and not _matches(exceptions, text):
            return Cue(kind, text, match.groupdict().get("what") or "")
    return None


def _correction(text: str, *, disagreed: bool) -> Cue | None:
    """Return what a sentence corrects, if it disagrees or follows one that does."""
    begun = _matches(_CORRECTION, text)
    if begun is None and not disagreed:
        return None
    rest = text[begun.end() :].strip() if begun else text
    declared = _matches(_DECLARED, rest) and (begun or ", not " in rest)
    if declared or (_matches(_CONTRAST, rest) and not _matches(_ORDER, rest)):
        return replace(to_remember(rest), kind=CueKind.CORRECTION)
    return None


def _matches(patterns: Sequence[re.Pattern[str]], text: str) -> re.Match[str] | None:
    return next(filter(None, (pattern.search(text) for pattern in patterns)), None)
