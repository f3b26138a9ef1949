"""Identifiers enter here and nowhere else."""

from collections.abc import Callable
from uuid import UUID, uuid4

NewId = Callable[[], UUID]


def new_id() -> UUID:
    """A fresh random identifier."""
    return uuid4()
