"""Decide whether a text says again what a memory says, in the same words or in others."""

from butlers.memory.policy.decisions import ANSWERED, distinctive_words, sentences
from butlers.memory.policy.quantities import quantities

MOST_PARTS = 24
"""Sentences of one text that are compared."""
_FEWEST_WORDS = 3
_NEAR, _TOLD_NEAR = 0.72, 0.62
_SHARED, _VERBATIM = 0.5, 0.85


def parts_of(text: str) -> list[str]:
    """Return the sentences of a text to compare, of an exchange those of the answer."""
    found = [one for one in sentences(text.rpartition(ANSWERED)[2]) if _says_something(one)]
    return found[:MOST_PARTS] if len(found) > 1 or found != [text] else []


def _says_something(sentence: str) -> bool:
    return len(distinctive_words(sentence)) >= _FEWEST_WORDS


def says_again(text: str, known: str, similarity: float, *, was_told: bool) -> bool:
    """Return whether a text says what a memory says."""
    mine = distinctive_words(text)
    return any(_is_one(text, mine, one, similarity, was_told) for one in (known, *sentences(known)))


def _is_one(
    text: str, mine: frozenset[str], known: str, similarity: float, was_told: bool
) -> bool:
    theirs = distinctive_words(known)
    if not mine or not theirs:
        return False
    shared = len(mine & theirs) / min(len(mine), len(theirs))
    return shared >= _VERBATIM or similarity >= _NEAR
