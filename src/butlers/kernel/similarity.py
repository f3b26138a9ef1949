"""How alike two things are: vectors by angle, sets by overlap, spellings by trigrams."""

import math
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from butlers.errors import InvalidInput

_ALPHANUMERIC = re.compile(r"[^\W_]+")


def cosine_similarity_sparse(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """The cosine between two sparse vectors; 0 where either has no length."""
    shorter, longer = (a, b) if len(a) <= len(b) else (b, a)
    dot = sum(weight * longer[term] for term, weight in shorter.items() if term in longer)
    return _cosine(dot, math.hypot(*a.values()), math.hypot(*b.values())) if dot else 0.0


def cosine_similarity_dense(a: Sequence[float], b: Sequence[float]) -> float:
    """The cosine between two dense vectors of one dimension; 0 where either has no length."""
    if len(a) != len(b):
        raise InvalidInput(f"vectors of {len(a)} and {len(b)} dimensions cannot be compared")
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return _cosine(dot, math.hypot(*a), math.hypot(*b)) if dot else 0.0


def jaccard(a: AbstractSet[str], b: AbstractSet[str]) -> float:
    """The share of all members that both sets hold; 0 where both are empty."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


def trigrams(text: str) -> frozenset[str]:
    """The trigrams of every word of the text, in lower case and padded as pg_trgm pads them."""
    padded = (f"  {word} " for word in _ALPHANUMERIC.findall(text.lower()))
    return frozenset(word[i : i + 3] for word in padded for i in range(len(word) - 2))


def trigram_similarity(a: str, b: str) -> float:
    """What PostgreSQL's `similarity(a, b)` of pg_trgm answers."""
    return jaccard(trigrams(a), trigrams(b))


def _cosine(dot: float, length_a: float, length_b: float) -> float:
    """Kept within [-1, 1], which rounding can leave by a hair."""
    return max(-1.0, min(1.0, dot / length_a / length_b))
