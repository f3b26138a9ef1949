"""The time in which a fact holds."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Window:
    """From the one instant until before the other; None is open, two equal ones are never."""

    valid_from: datetime | None
    valid_to: datetime | None

    def until(self, end: datetime) -> "Window":
        """As much of it as lies before an instant."""
        end = end if self.valid_to is None else min(end, self.valid_to)
        return Window(
            self.valid_from, end if self.valid_from is None else max(end, self.valid_from)
        )

    def begins_before(self, at: datetime) -> bool:
        """Whether some of it lies before an instant."""
        return self.valid_from is None or self.valid_from < at

    def ends_after(self, at: datetime) -> bool:
        """Whether an instant and some time after it lie within its end."""
        return self.valid_to is None or at < self.valid_to

    def told(self) -> list[str | None]:
        """Both instants, as events tell them."""
        return [None if at is None else at.isoformat() for at in (self.valid_from, self.valid_to)]
