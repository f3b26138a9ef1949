"""New identifiers, which are made only here."""

from collections.abc import Callable
from uuid import UUID, uuid4

NewId = Callable[[], UUID]


def new_id() -> UUID:
    """Return a new random identifier."""
    return uuid4()
