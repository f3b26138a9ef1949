"""Cut long episodes to what matches a question, and find texts that say the same."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rapidfuzz import fuzz

from butlers.memory.model import MemoryRef

# How much of a long episode is shown, by where its line stands: the first lines get more room.
_FIRST_LINES, _FIRST_EXCERPT, _EXCERPT = 3, 360, 180
# How much of a long episode is read for the sentences that match.
READ = 8_000
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+")
# Two texts this much alike, in percent, say the same; of short ones only equal texts do.
_ALIKE, _SHORT = 92, 40
_FIGURE = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class ExcerptOf:
    """What an excerpt is cut for: the words of a question, and where its line stands."""

    words: Sequence[str] = ()
    """They may be stems."""
    order: int = 0
    most: int | None = None
    """How many characters it has; by the order of its line if this is None."""

    @property
    def limit(self) -> int:
        """How many characters it has."""
        return self.most or (_FIRST_EXCERPT if self.order < _FIRST_LINES else _EXCERPT)


FROM_THE_START = ExcerptOf()


def excerpt(text: str, cut: ExcerptOf) -> str:
    """Cut a text to the sentences that have most of the question's words.

    Without any match the text is cut from its beginning.
    """
    words, limit = cut.words, cut.limit
    if len(text) <= limit:
        return text
    sentences = _SENTENCE.split(text)
    first = _best_sentence(sentences, words)
    last, length = first + 1, len(sentences[first])
    while last < len(sentences) and length + len(sentences[last]) < limit:
        length += 1 + len(sentences[last])
        last += 1
    while first > 0 and length + len(sentences[first - 1]) < limit:
        length += 1 + len(sentences[first - 1])
        first -= 1
    text = " ".join(sentences[first:last])
    return _shortened(text, words, limit, is_later=first > 0, has_more=last < len(sentences))


def _stems(words: Sequence[str]) -> re.Pattern[str] | None:
    stems = [re.escape(word[: max(3, len(word) - 1)]) for word in words if word]
    return re.compile(rf"\b(?:{'|'.join(stems)})", re.IGNORECASE) if stems else None


def _best_sentence(sentences: Sequence[str], words: Sequence[str]) -> int:
    """Return the number of the sentence with most different words; the first of several."""
    stems = _stems(words)
    if stems is None:
        return 0
    hits = [len({hit.lower() for hit in stems.findall(sentence)}) for sentence in sentences]
    return hits.index(max(hits))


def _shortened(
    text: str, words: Sequence[str], limit: int, *, is_later: bool, has_more: bool
) -> str:
    """Cut one long sentence around its first match, and mark what is left out."""
    if len(text) > limit:
        stems = _stems(words)
        match = stems.search(text) if stems else None
        start = min(max(0, match.start() - limit // 3), len(text) - limit) if match else 0
        is_later, has_more = is_later or start > 0, has_more or start + limit < len(text)
        text = text[start : start + limit]
    return f"{'…' if is_later else ''}{text.strip()}{'…' if has_more else ''}"


def without_repeats(texts: Sequence[str]) -> list[int]:
    """Return the numbers of the texts that no earlier one says in almost the same words.

    Texts with other figures in them say something else.
    """
    kept: list[int] = []
    figures = [_FIGURE.findall(text) for text in texts]
    for number, text in enumerate(texts):
        alike = _ALIKE if len(text) >= _SHORT else 100
        same = (n for n in kept if figures[n] == figures[number])
        if not any(fuzz.ratio(text, texts[n], score_cutoff=alike) for n in same):
            kept.append(number)
    return kept


def covered_by_pieces(rows: Mapping[MemoryRef, Mapping[str, Any]]) -> set[MemoryRef]:
    """Return the whole episodes of sessions of which there are pieces too."""
    cut = {row["metadata"].get("session") for row in rows.values() if row.get("piece")}
    return {
        ref
        for ref, row in rows.items()
        if "piece" in row and not row["piece"] and row["metadata"].get("session", "") in cut
    }
