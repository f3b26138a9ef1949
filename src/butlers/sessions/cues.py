"""How it is told that somebody states something to be kept; the words for it are in `cues.toml`.

A sentence is read twice. Generously: what may be a statement is kept whole in an essence, and
being wrong costs a line. Strictly: what is one becomes a fact or a rule, so that questions,
quotations, suppositions and orders for the task at hand must not pass.
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
"""Who says more in a sentence has pasted it."""


class CueKind(StrEnum):
    """What a statement is."""

    STANDING = "standing"
    NAME = "name"
    IDENTITY = "identity"
    PREFERENCE = "preference"
    DECISION = "decision"
    CORRECTION = "correction"
    REMEMBER = "remember"


@dataclass(frozen=True, slots=True)
class Cue:
    """What a sentence states: what kind of thing, of what, and which part of it says so."""

    kind: CueKind
    rest: str
    """What it says, without the words that only ask to keep it."""
    about: str = ""
    """What it is said of, where that is plain: of "my editor is …" or "no, the oven is …"."""


_IDENTITY = _TABLES["identity"]
_FRAGMENTS = {"{lasting}": _IDENTITY.pop("lasting"), "{settled}": _IDENTITY.pop("settled")}


def _compiled(texts: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    made = []
    for text in texts:
        for name, fragment in _FRAGMENTS.items():
            text = text.replace(name, fragment)
        made.append(re.compile(text, re.IGNORECASE))
    return tuple(made)


def _all(table: dict[str, Any], *without: str) -> tuple[re.Pattern[str], ...]:
    """Every expression of a table, whatever the language, but those under some names."""
    return _compiled(text for name, texts in table.items() if name not in without for text in texts)


_LEAD = re.compile(
    rf"^(?:(?:{'|'.join(_TABLES['lead'])})(?:[\s,.!:;—–、，：！-]+|(?<=[\u3040-\u9fff])))+",
    re.IGNORECASE,
)
_ASKING = _TABLES["remember"]
_REMEMBER = _compiled(
    [
        *(
            rf"^(?:{_ASKING[language][0]}){_ASKING['that']}"
            for language in ("en", "de", "es", "fr", "ru")
        ),
        *_ASKING["whole"],
    ]
)
_REMEMBER_AFTER, _REMEMBER_BACK = _compiled(_ASKING["after"]), _compiled(_ASKING["back"])
_NEVER = _compiled(_TABLES["never"]["any"])
_QUESTION, _ASKED_KINDLY = (_compiled(_TABLES["question"][name]) for name in ("any", "kind"))
_STANDING, _NOT_STANDING = _all(_TABLES["standing"], "not"), _compiled(_TABLES["standing"]["not"])
_DECISION, _NOT_DECIDED = _all(_TABLES["decision"], "not"), _compiled(_TABLES["decision"]["not"])
_NAME, _WHO = _all(_TABLES["name"]), _all(_IDENTITY)
_PREFERENCE = _all(_TABLES["preference"])
_SHAPES = ("declared", "contrast", "order")
_CORRECTION = _all(_TABLES["correction"], *_SHAPES)
_DECLARED, _CONTRAST, _ORDER = (_compiled(_TABLES["correction"][name]) for name in _SHAPES)
_CUE, _TURNED_BACK = _all(_TABLES["cue"]), _all(_TABLES["turned"])


def may_state(sentence: str) -> bool:
    """Whether a sentence may state something to be kept, read generously."""
    return _matches(_CUE, sentence) is not None


def turns_back(turn: str) -> bool:
    """Whether a turn begins by correcting what was done."""
    return _matches(_TURNED_BACK, _LEAD.sub("", turn[:_LONGEST])) is not None


def asks_to_remember(sentence: str) -> bool:
    """Whether a sentence asks to keep what it says, or what follows it."""
    return _matches(_REMEMBER, f"{_LEAD.sub('', sentence)} …") is not None


def points_back(sentence: str) -> bool:
    """Whether a sentence asks to keep the one before it."""
    return _matches(_REMEMBER_BACK, _LEAD.sub("", sentence)) is not None


def disagrees(sentence: str) -> bool:
    """Whether a sentence says that something is otherwise."""
    return _matches(_CORRECTION, _LEAD.sub("", sentence)) is not None


def stated(sentence: str, *, disagreed: bool = False) -> Cue | None:
    """What a sentence states, read strictly; after a disagreement, what it puts right too."""
    if not may_be_kept(sentence):
        return None
    said = _LEAD.sub("", sentence)
    asked = _matches(_REMEMBER, said)
    rest = _LEAD.sub("", said[asked.end() :].strip()) if asked else said
    found = _by_itself(rest) or _put_right(rest, disagreed=disagreed)
    if found is None and (asked or _matches(_REMEMBER_AFTER, said)):
        found = to_remember(rest)
    return found if found is not None and any(map(str.isalnum, found.rest)) else None


def to_remember(said: str) -> Cue:
    """What a sentence says that somebody asked to keep."""
    declared = _matches(_DECLARED, said)
    return Cue(CueKind.REMEMBER, said, declared["about"] if declared else "")


def may_be_kept(sentence: str) -> bool:
    """Whether a sentence is somebody's own, asks nothing and wants to be obeyed by nobody."""
    said = _LEAD.sub("", sentence)
    if len(said) > _LONGEST or _matches(_NEVER, said):
        return False
    return not _matches(_QUESTION, said) or _matches(_ASKED_KINDLY, said) is not None


def _by_itself(said: str) -> Cue | None:
    """What a sentence states that needs nobody to say so."""
    if _matches(_STANDING, said) and not _matches(_NOT_STANDING, said):
        return Cue(CueKind.STANDING, said)
    if _matches(_NAME, said):
        return Cue(CueKind.NAME, said)
    who = _matches(_WHO, said)
    if who is not None:
        return Cue(CueKind.IDENTITY, said, who.groupdict().get("what") or "")
    if _matches(_PREFERENCE, said):
        return Cue(CueKind.PREFERENCE, said)
    if _matches(_DECISION, said) and not _matches(_NOT_DECIDED, said):
        return Cue(CueKind.DECISION, said)
    return None


def _put_right(said: str, *, disagreed: bool) -> Cue | None:
    """What a sentence says of something, where it says that it is otherwise."""
    begun = _matches(_CORRECTION, said)
    if begun is None and not disagreed:
        return None
    rest = said[begun.end() :].strip() if begun else said
    declared = _matches(_DECLARED, rest) and (begun or ", not " in rest)
    if declared or (_matches(_CONTRAST, rest) and not _matches(_ORDER, rest)):
        return replace(to_remember(rest), kind=CueKind.CORRECTION)
    return None


def _matches(patterns: Sequence[re.Pattern[str]], text: str) -> re.Match[str] | None:
    return next(filter(None, (pattern.search(text) for pattern in patterns)), None)
