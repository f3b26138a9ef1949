"""Check entities' names, aliases and metadata; decide which facts survive a merge."""

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from butlers.errors import InvalidInput
from butlers.kernel.secrets import Secrets, admitted, admitted_json
from butlers.kernel.text import clean_json
from butlers.memory.policy import inputs
from butlers.memory.policy.validity import Window

MAX_ALIASES = 100
MAX_METADATA_BYTES = 20_000
MAX_METADATA_DEPTH = 20
MERGED_INTO = "merged_into"


def checked_name(field: str, value: str) -> str:
    """Return a name on one line, in Unicode's composed form (NFC)."""
    return inputs.checked_line(field, unicodedata.normalize("NFC", value), inputs.MAX_NAME)


def kept_name(field: str, value: str, secrets: Secrets) -> str:
    """Return a name fit to be stored."""
    return checked_name(field, admitted(secrets, field, value))


def kept_aliases(aliases: Sequence[str], secrets: Secrets) -> list[str]:
    """Return aliases fit to be stored, each once whatever its case."""
    if len(aliases) > MAX_ALIASES:
        raise InvalidInput(f"aliases: found {len(aliases)} of them; valid is at most {MAX_ALIASES}")
    return unheard_of((kept_name("aliases", alias, secrets) for alias in aliases), ())


def unheard_of(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the names that are not known, each once whatever its case."""
    heard = {name.casefold() for name in known}
    fresh: dict[str, str] = {}
    for name in names:
        if name.casefold() not in heard:
            fresh.setdefault(name.casefold(), name)
    return list(fresh.values())


def kept_metadata(metadata: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
    """Return metadata fit to be stored; refuse what is too large, too deep or reserved."""
    try:
        cleaned = admitted_json(secrets, "metadata", clean_json(metadata, MAX_METADATA_DEPTH))
    except TypeError as error:
        raise InvalidInput(f"metadata: found a {error}; valid is a JSON object") from None
    except RecursionError:
        raise InvalidInput(
            f"metadata: found more than {MAX_METADATA_DEPTH} levels; nest it less deeply"
        ) from None
    if not isinstance(cleaned, dict):
        found = type(metadata).__name__
        raise InvalidInput(f"metadata: found a {found}; valid is a JSON object")
    if MERGED_INTO in cleaned:
        raise InvalidInput(
            f"metadata: found the key {MERGED_INTO!r}, which only a merge writes; leave it out"
        )
    refuse_large(cleaned, MAX_METADATA_BYTES)
    return cleaned


def joined_metadata(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge changes into metadata; refuse to grow it beyond the limit."""
    joined = {**before, **changes}
    # What a merge made too large may stay, but not grow.
    refuse_large(joined, max(MAX_METADATA_BYTES, _size(before)))
    return joined


def merged_metadata(source: Mapping[str, Any], target: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the metadata of two entities; the target's values win."""
    return {key: value for key, value in {**source, **target}.items() if key != MERGED_INTO}


def refuse_large(metadata: Mapping[str, Any], limit: int) -> None:
    """Raise InvalidInput for metadata beyond its limit."""
    size = _size(metadata)
    if size > limit:
        raise InvalidInput(f"metadata: found {size} bytes as JSON; valid is at most {limit}")


def _size(metadata: Mapping[str, Any]) -> int:
    try:
        return len(json.dumps(metadata, ensure_ascii=False, allow_nan=False).encode())
    except ValueError:
        fault = "metadata: found a number that JSON cannot hold; valid are finite numbers"
        raise InvalidInput(fault) from None


Row = Mapping[str, Any]

# Smaller differences of confidence do not count: the times of confirmations are not that exact.
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class FactMerge:
    """Two facts under one key: the winner stays current, the loser is superseded."""

    winner: Row
    loser: Row

    @property
    def since(self) -> datetime | None:
        """When the winner began to hold, if it was stored later and has no window of its own."""
        stored_at: datetime = self.winner["created_at"]
        is_later = self.winner["valid_from"] is None and stored_at > self.loser["created_at"]
        return stored_at if is_later else None

    @property
    def why(self) -> str:
        """Why the winner stays."""
        if self.winner["trust"] != self.loser["trust"]:
            return "more trusted"
        is_draw = _confidence(self.winner) == _confidence(self.loser)
        return "the target's own" if is_draw else "more confident"


def settled(rows: Iterable[Row]) -> list[FactMerge]:
    """List the facts that lose, in id order: to the more trusted, then the more confident, then
    the target's own."""
    winners: dict[tuple[str, str], list[Row]] = {}
    merges = []
    for row in sorted(rows, key=_rank):
        kept = winners.setdefault((row["scope"], row["predicate"]), [])
        winner = next((fact for fact in kept if _window(fact).meets(_window(row))), None)
        if winner is None:
            kept.append(row)
        else:
            merges.append(FactMerge(winner, row))
    return sorted(merges, key=lambda merge: merge.loser["id"])


def _rank(row: Row) -> tuple[Any, ...]:
    return (-row["trust"], -_confidence(row), not row["is_own"], row["id"])


def _confidence(row: Row) -> float:
    return round(float(row["effective_confidence"]), _DIGITS)


def _window(row: Row) -> Window:
    return Window(row["valid_from"], row["valid_to"])
