"""Score the entities that a name may mean, and check the hints of a caller."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID

from butlers.errors import InvalidInput
from butlers.kernel.similarity import jaccard, trigram_similarity
from butlers.memory.policy import inputs

FUZZY_THRESHOLD = 0.3
MIN_FUZZY_NAME = 3
MAX_BOOST = 20.0
MAX_TOPIC = 2_000
MAX_MENTIONED = 100
MAX_DOMAIN_SCORES = 1_000
MAX_DOMAIN_SCORE = 1_000_000
HINTS = ("topic", "mentioned_with", "domain_scores")


class NameMatch(StrEnum):
    """How a name matches an entity."""

    EXACT = "exact"
    ALIAS = "alias"
    PREFIX = "prefix"
    FUZZY = "fuzzy"


class FuzzyMeasure(StrEnum):
    """What measured the similarity of two spellings; both measure the same."""

    PG_TRGM = "pg_trgm"
    PRODUCT = "product"


BASE_SCORES = {
    NameMatch.EXACT: 100.0,
    NameMatch.ALIAS: 80.0,
    NameMatch.PREFIX: 50.0,
    NameMatch.FUZZY: 20.0,
}


def candidate(
    row: Mapping[str, Any], name_match: str, measure: FuzzyMeasure | None = None
) -> dict[str, Any]:
    """Return a candidate with the score of its name alone."""
    match = NameMatch(name_match)
    return {
        "entity_id": row["id"],
        "canonical_name": row["canonical_name"],
        "entity_type": row["entity_type"],
        "score": BASE_SCORES[match],
        "name_match": match.value,
        "aliases": list(row["aliases"]),
        **({"fuzzy_measure": measure.value} if measure else {}),
    }


@dataclass(frozen=True, slots=True)
class Hints:
    """What the caller knows about the entity."""

    text: str = ""
    domain_scores: dict[UUID, float] = field(default_factory=dict)


def checked_hints(hints: Mapping[str, Any] | None) -> Hints:
    """Check hints; absent, null and empty ones are ignored."""
    given = hints or {}
    unknown = [key for key in given if key not in HINTS]
    if unknown:
        raise InvalidInput(f"context_hints: found {unknown[0]!r}; valid are {', '.join(HINTS)}")
    topic = _texts("topic", given.get("topic"), most=1, length=MAX_TOPIC)
    mentioned = _texts("mentioned_with", given.get("mentioned_with"), MAX_MENTIONED)
    scores = _domain_scores(given.get("domain_scores"))
    return Hints(" ".join((*topic, *mentioned)), scores)


def overlap_boost(facts: Sequence[AbstractSet[str]], terms: AbstractSet[str]) -> float:
    """Return up to 20 points for the overlap of facts' keywords with the terms of hints.

    It is the Jaccard index with all facts or with the best single fact, whichever is more.
    """
    together = frozenset[str]().union(*facts)
    return MAX_BOOST * max(jaccard(words, terms) for words in (together, *facts))


def ranked(
    candidates: Iterable[Mapping[str, Any]], extra: Mapping[UUID, float]
) -> list[dict[str, Any]]:
    """Add the extra scores, and sort by score, then name, then id."""
    rows = []
    for row in candidates:
        id, score = row["entity_id"], round(row["score"] + extra[row["entity_id"]], 4)
        rows.append({**row, "entity_id": str(id), "score": score})
    return sorted(rows, key=lambda row: (-row["score"], row["canonical_name"], row["entity_id"]))


def similar(rows: Iterable[Mapping[str, Any]], name: str, limit: int) -> list[Mapping[str, Any]]:
    """Return the entities spelled like the name, as pg_trgm would find and order them."""
    alike = []
    for row in rows:
        names = (row["canonical_name"], *row["aliases"])
        likeness = max(trigram_similarity(own, name) for own in names)
        if likeness >= FUZZY_THRESHOLD:
            alike.append((-likeness, row["canonical_name"], row["id"], row))
    return [row for *_, row in sorted(alike, key=lambda found: found[:3])[:limit]]


def _texts(hint: str, value: object, most: int, length: int = inputs.MAX_NAME) -> list[str]:
    """Check one text or several; blank ones are ignored."""
    texts = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise InvalidInput(
            f"context_hints.{hint}: found a {type(value).__name__}; valid is "
            + ("a text" if most == 1 else "a list of texts")
        )
    if len(texts) > most:
        raise InvalidInput(
            f"context_hints.{hint}: found {len(texts)} texts; valid is at most {most}"
        )
    field = f"context_hints.{hint}"
    return [inputs.checked_line(field, text, length) for text in texts if text.strip()]


def _domain_scores(scores: object) -> dict[UUID, float]:
    if scores is None:
        return {}
    if not isinstance(scores, Mapping) or len(scores) > MAX_DOMAIN_SCORES:
        raise InvalidInput(
            f"context_hints.domain_scores: found a {type(scores).__name__}; "
            f"valid is an object of at most {MAX_DOMAIN_SCORES} entity ids and their scores"
        )
    return {
        inputs.checked_id("context_hints.domain_scores", str(entity_id)): _domain_score(score)
        for entity_id, score in scores.items()
    }


def _domain_score(score: object) -> float:
    # NaN lies between no two numbers, so it is refused with the rest.
    if (
        isinstance(score, int | float)
        and not isinstance(score, bool)
        and -MAX_DOMAIN_SCORE <= score <= MAX_DOMAIN_SCORE
    ):
        return float(score)
    raise InvalidInput(
        f"context_hints.domain_scores: found {score!r:.80}; "
        f"valid is a number from {-MAX_DOMAIN_SCORE} to {MAX_DOMAIN_SCORE}"
    )
