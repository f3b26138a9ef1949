"""Old notes count for less, in steps, but never for nothing."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from butlers.clock import utc_now
from butlers.notebook.model import ScoredMemory

FLOOR = 0.4
_STEPS = ((timedelta(days=7), 1.0), (timedelta(days=30), 0.8), (timedelta(days=90), 0.6))


def to_text(moment: datetime) -> str:
    """The instant as the tables hold it: UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def from_text(text: str) -> datetime | None:
    """The instant a table holds, or None for a text nobody can read; without a zone it is UTC."""
    try:
        return _aware(datetime.fromisoformat(text))
    except ValueError:
        return None


def compute_decay_multiplier(updated_at: str, now: datetime | None = None) -> float:
    """What is left of a score at this age; a time without a zone is UTC.

    A timestamp nobody can read counts as old: one bad row must not cost the others.
    """
    written = from_text(updated_at)
    if written is None:
        return FLOOR
    age = _aware(now or utc_now()) - written
    return next((multiplier for limit, multiplier in _STEPS if age < limit), FLOOR)


def apply_decay(results: Iterable[ScoredMemory], now: datetime | None = None) -> list[ScoredMemory]:
    """The results with their scores decayed, best first."""
    moment = now or utc_now()
    decayed = [ScoredMemory(r.memory, r.score * _left(r, moment), r.source) for r in results]
    return sorted(decayed, key=lambda r: (-r.score, r.memory.key, r.memory.id))


def _left(result: ScoredMemory, now: datetime) -> float:
    return compute_decay_multiplier(result.memory.updated_at, now)


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
