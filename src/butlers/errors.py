"""Every error the product raises on purpose; messages are for the person or model that reads."""

from collections.abc import Sequence


class ButlersError(Exception):
    """The root of the tree."""


class InvalidInput(ButlersError, ValueError):
    """An argument cannot be used; the message names field, value and what is valid."""


class Conflict(ButlersError, ValueError):
    """The request conflicts with what exists already."""


class NotFound(ButlersError, ValueError):
    """What was asked for does not exist for this caller."""


class Forbidden(ButlersError):
    """The caller lacks the right; the message says which right is needed."""


class PresenceRequired(Conflict):
    """Only a person may do this, and none is present; `why` says why this caller is not one."""

    def __init__(self, what: str, why: str = "") -> None:
        self.what, self.why = what, why
        ways = "at a terminal, in the dashboard, or with an operator token given on purpose"
        super().__init__(f"only a person may {what}: {ways}{why and f'; {why}'}")


class IntegrityViolation(ButlersError):
    """A write would have broken an invariant; nothing was written."""


class Unavailable(ButlersError):
    """A database, model or disk does not answer; the message says which, and what to do."""


class Away(Unavailable):
    """The database is gone for the moment; a read can be tried again at once."""


class BudgetExhausted(Unavailable):
    """The budget for language models is spent; the message names the limit and when it resets."""


class ShareExhausted(BudgetExhausted):
    """The share of one tenant in that budget is spent."""


class SettingsError(ButlersError):
    """Settings are wrong: one line per fault, naming file, key, the value and what is valid."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))
