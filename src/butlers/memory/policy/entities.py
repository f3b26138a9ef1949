"""Check entities' names, aliases and metadata; decide which facts survive a merge."""

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from butlers.errors import InvalidInput
from butlers.kernel.secret_policy import Secrets, admitted, admitted_json
from butlers.kernel.text import clean_json
from butlers.memory.policy import inputs
from butlers.memory.policy.validity import Window

MAX_ALIASES = 100
MAX_METADATA_BYTES = 20_000
MAX_METADATA_DEPTH = 20
MERGED_INTO = "merged_into"


def checked_name(field: str, value: str) -> str:
    """A name on one line, composed, so that it equals itself however it was typed."""
    return inputs.checked_line(field, unicodedata.normalize("NFC", value), inputs.MAX_NAME)


def kept_name(field: str, value: str, secrets: Secrets) -> str:
    """A name fit to be stored."""
    return checked_name(field, admitted(secrets, field, value))


def kept_aliases(aliases: Sequence[str], secrets: Secrets) -> list[str]:
    """Names in the order given, each once whatever its case."""
    if len(aliases) > MAX_ALIASES:
        raise InvalidInput(f"aliases: found {len(aliases)} of them; valid is at most {MAX_ALIASES}")
    return unheard_of((kept_name("aliases", alias, secrets) for alias in aliases), ())


def unheard_of(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """The names that are not among the known ones, each once whatever its case."""
    heard = {name.casefold() for name in known}
    fresh: dict[str, str] = {}
    for name in names:
        if name.casefold() not in heard:
            fresh.setdefault(name.casefold(), name)
    return list(fresh.values())


def kept_metadata(metadata: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
    """A JSON object of bounded size and depth that does not claim to be merged away."""
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
    """The changes laid over what was there; it may not grow beyond the limit."""
    joined = {**before, **changes}
    # What a merge made large may stay so, but not grow further.
    refuse_large(joined, max(MAX_METADATA_BYTES, _size(before)))
    return joined


def merged_metadata(source: Mapping[str, Any], target: Mapping[str, Any]) -> dict[str, Any]:
    """What both say; where they differ, the target is right."""
    return {key: value for key, value in {**source, **target}.items() if key != MERGED_INTO}


def refuse_large(metadata: Mapping[str, Any], limit: int) -> None:
    """Metadata beyond its limit is an InvalidInput."""
    size = _size(metadata)
    if size > limit:
        raise InvalidInput(f"metadata: found {size} bytes as JSON; valid is at most {limit}")


def _size(metadata: Mapping[str, Any]) -> int:
    try:
        return len(json.dumps(metadata, ensure_ascii=False, allow_nan=False).encode())
    except ValueError:
        raise InvalidInput(
            "metadata: found a number that JSON cannot hold; valid are finite numbers"
        ) from None


Row = Mapping[str, Any]

# Nobody is surer by less than this: the instants of two confirmations are not that exact.
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class FactMerge:
    """A fact that gives way, and the one that stays."""

    winner: Row
    loser: Row

    @property
    def since(self) -> datetime | None:
        """When the one that stays was told, where that took the place of what was told before."""
        told: datetime = self.winner["created_at"]
        later = self.winner["valid_from"] is None and told > self.loser["created_at"]
        return told if later else None

    @property
    def why(self) -> str:
        """What decided."""
        if self.winner["trust"] != self.loser["trust"]:
            return "more trusted"
        return "surer" if _sureness(self.winner) != _sureness(self.loser) else "the target's own"


def settled(rows: Iterable[Row]) -> list[FactMerge]:
    """Each fact that gives way, in id order: the more trusted one stays, then the surer one now,
    and on a draw the target's own."""
    kept: dict[tuple[str, str], list[Row]] = {}
    lost = []
    for row in sorted(rows, key=_window_key):
        beside = kept.setdefault((row["scope"], row["predicate"]), [])
        winner = next((one for one in beside if _at_once(one, row)), None)
        if winner is None:
            beside.append(row)
        else:
            lost.append(FactMerge(winner, row))
    return sorted(lost, key=lambda one: one.loser["id"])


def _window_key(row: Row) -> tuple[Any, ...]:
    return (-row["trust"], -_sureness(row), not row["is_own"], row["id"])


def _sureness(row: Row) -> float:
    return round(float(row["effective_confidence"]), _DIGITS)


def _at_once(one: Row, other: Row) -> bool:
    """Whether two windows share a moment."""
    own, others = (Window(row["valid_from"], row["valid_to"]) for row in (one, other))
    return own.meets(others)
