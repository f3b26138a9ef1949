"""The one order in which memories are shown."""

import math
from datetime import UTC, datetime, timedelta
from uuid import UUID

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def best_first(score: float, created_at: datetime, id: UUID | str) -> tuple[float, timedelta, str]:
    """A key for `sorted`: score descending, then `created_at` descending, then id ascending.

    No two memories are equal in it, so the same rows give the same order. A score that is not
    a number comes last.
    """
    return (math.inf if math.isnan(score) else -score, _EPOCH - created_at, str(id))
