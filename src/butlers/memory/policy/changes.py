"""Tell which of the memories that bear on one prompt a later one makes past, sentence by sentence.

That both bear on the same prompt speaks for one matter. Nothing is hidden by this: the earlier one
is told behind the later, with the day until which it held.
"""

from collections.abc import Sequence
from datetime import datetime

from butlers.kernel.text import folded
from butlers.memory.policy.decisions import ANSWERED, distinctive_words, sentences, why_past
from butlers.memory.policy.quantities import quantities

_NEAR = 0.6
"""How near two sentences count that bear on the same prompt."""
_LEAST_SHARED = 2
"""Words in common from which another number, day or time is another value of the same."""


def replaced_by(texts: Sequence[tuple[str, datetime]]) -> dict[int, int]:
    """Return the numbers of the texts that a later one makes past, each with that one's number."""
    order = sorted(range(len(texts)), key=lambda number: texts[number][1])
    past: dict[int, int] = {}
    for place, old in enumerate(order):
        later = (new for new in reversed(order[place + 1 :]) if _is_later(texts, old, new))
        found = next((new for new in later if _replaces(texts[new][0], texts[old][0])), None)
        if found is not None:
            past[old] = found
    return past


def _is_later(texts: Sequence[tuple[str, datetime]], old: int, new: int) -> bool:
    """Whether a text is from another session's day: within one, sentences belong together."""
    return texts[new][1].date() > texts[old][1].date()


def _replaces(later: str, earlier: str) -> bool:
    return any(
        _changes(new, old) for new in _stating(later) for old in _stating(earlier) if new != old
    )


def _stating(text: str) -> list[str]:
    """Return the sentences of a text that state something, of the user and of the agent."""
    found = (one for part in text.split(ANSWERED) for one in sentences(part))
    return [one for one in found if not one.endswith("?")]


def _changes(later: str, earlier: str) -> bool:
    if why_past(later, earlier, _NEAR) is not None:
        return True
    shared = distinctive_words(later) & distinctive_words(earlier)
    if len(shared) < _LEAST_SHARED:
        return False
    return quantities(folded(earlier)).differ_from(quantities(folded(later))) is not None
