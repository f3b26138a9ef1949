"""Decide whether two failures are the same error, so that the fix of one may fix the other."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from butlers.sessions.command_names import programs

LEAST_OVERLAP = 0.65
"""How much of their words two errors of one program share at least to be one error."""
_NEAR, _LEAST_SHARED, _LONG_SENTENCE = 0.9, 4, 12
_WORD = re.compile(r"[^\s'\"`()\[\]{},;:|=^]+")
_INSTALLS = re.compile(r"\b(?:install|add|require|go get)\b")
_REPLACED = re.compile(r"<\w+>|(?<![.!])[.!]++$")


def most_alike(
    failures: Sequence[Mapping[str, Any]], error: str, command: str, least: float = LEAST_OVERLAP
) -> Mapping[str, Any] | None:
    """Return the failure most like an error, the first of equals; None if none is alike."""
    scores = [likeness(error, command, one["error"], one["command"] or "") for one in failures]
    best = max(scores, default=0.0)
    return failures[scores.index(best)] if scores and best >= least else None


def likeness(signature: str, command: str, other: str, other_command: str) -> float:
    """Return how alike two errors are: 1 for the same signature, 0 for different errors.

    Errors of different programs are alike only if their signatures are the same. Of one program
    they are if a long sentence is the same, or if one says what the other says and little more:
    where each has a word that the other lacks, the fix is likely another.
    """
    if not signature or not other:
        return 0.0
    if signature == other:
        return 1.0
    if not programs(command) & programs(other_command):
        return 0.0
    if any(len(part.split()) >= _LONG_SENTENCE for part in _parts(signature) & _parts(other)):
        return _NEAR
    one, two = _words(signature), _words(other)
    shared, own, others = one & two, one - two, two - one
    if _telling(own, command) and _telling(others, other_command):
        return 0.0
    enough = len(shared) >= _LEAST_SHARED
    return min(_NEAR, len(shared) / len(one | two)) if enough else 0.0


def _telling(words: set[str], command: str) -> set[str]:
    """Return the words that tell errors apart: not those of the command, unless it installs."""
    if _INSTALLS.search(command):
        return words
    named = command.lower()
    return words - {*named.split(), *re.split(r"[^\w-]+", named), *re.split(r"\W+", named)}


def _parts(signature: str) -> set[str]:
    return set(signature.split(" | "))


def _words(signature: str) -> set[str]:
    return {_REPLACED.sub("", word) for word in _WORD.findall(signature)} - {""}
