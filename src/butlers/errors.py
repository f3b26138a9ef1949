"""Every error the product raises on purpose.

ButlersError
├── InvalidInput        (also a ValueError)  the caller gave something that cannot be used
├── Conflict            (also a ValueError)  it clashes with what is already there
├── NotFound            (also a ValueError)  there is no such thing for this caller
├── Forbidden           the caller is known, and this is not for it
├── IntegrityViolation  an invariant would break; nothing was written
├── Unavailable         something outside does not answer: database, model, disk
│   ├── Away            the database, for now: another may be there in a moment
│   └── BudgetExhausted what sessions may cost in a day is spent
│       └── ShareExhausted  one tenant's part of it; the others go on
└── SettingsError       a file of settings is wrong; carries one line per fault
"""

from collections.abc import Sequence


class ButlersError(Exception):
    """The root of the tree; its message is meant for the person or model that reads it."""


class InvalidInput(ButlersError, ValueError):
    """The caller gave something unusable; the message names field, value and what is valid."""


class Conflict(ButlersError, ValueError):
    """The request clashes with what is already there."""


class NotFound(ButlersError, ValueError):
    """There is no such thing for this caller."""


class Forbidden(ButlersError):
    """The caller is known, and this is not for it; the message says for whom it is."""


class IntegrityViolation(ButlersError):
    """An invariant would have been broken; nothing was written."""


class Unavailable(ButlersError):
    """Something outside does not answer; the message says what and what to do."""


class Away(Unavailable):
    """The database is away for now; whoever only reads may ask again at once."""


class BudgetExhausted(Unavailable):
    """What sessions may cost is spent; the message says which limit, and when there is more."""


class ShareExhausted(BudgetExhausted):
    """What sessions may cost for one tenant is spent; there is more for the others."""


class SettingsError(ButlersError):
    """Settings are wrong: one line per fault, naming file, key, what was found and is valid."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))
