"""New identifiers, which are made only here."""

from collections.abc import Callable
from uuid import UUID, uuid4

NewId = Callable[[], UUID]

new_id: NewId = uuid4
"""Returns a new random identifier."""
