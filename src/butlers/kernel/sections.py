"""Base of all sections of settings: strict, frozen, with words for what is valid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, ClassVar

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic_core import PydanticCustomError


class SettingsSection(BaseModel):
    """A table of settings: frozen, known keys only, no conversion of types."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


class InlineSection(SettingsSection):
    """A section written on one line, as `key = { … }`."""


@dataclass(frozen=True, slots=True)
class SpendingLimits:
    """Limits on the completions of a day; 0 sets no limit."""

    runs: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    each: "SpendingLimits | None" = None
    """The limits for each tenant."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of `butlers doctor` for a module; equal checks run once.

    `look` gets `about` and returns a line that says that all is well, or raises a ButlersError.
    """

    name: str
    about: str
    look: Callable[[str], str]


class ModuleSection(SettingsSection):
    """The settings of a module: what the host needs to know without loading it."""

    butler_jobs: ClassVar[tuple[str, ...]] = ()
    """Its jobs that `[butler.schedule]` may schedule without a prompt."""

    def limits(self) -> tuple[SpendingLimits, str] | None:
        """Return the limits on completions and the section that sets them, if it sets any."""
        return None

    def checks(self) -> Sequence[Check]:
        """Return the checks of what it needs."""
        return ()


@dataclass(frozen=True)
class Valid:
    """What a setting accepts, in words, where its type and bounds do not say it all."""

    text: str


@dataclass(frozen=True)
class Fault:
    """One wrong setting: its key within the section, its value and what is valid."""

    key: str
    found: object
    valid: str


def refuse(faults: Sequence[Fault]) -> None:
    """Reject the section being validated if there are faults; the error holds them all."""
    if faults:
        message = "; ".join(f"{fault.key}: {fault.valid}" for fault in faults)
        raise PydanticCustomError("faults", "{message}", {"message": message, "faults": faults})


def checked_cron(expression: str) -> str:
    """Return a cron expression that is empty or valid; ValueError otherwise."""
    if expression:
        try:  # with any start: only the grammar is checked
            CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC))
        except CronSimError as error:
            raise ValueError(str(error)) from error
    return expression


CRON = Valid('a cron expression in UTC such as "0 3 * * *", or "" for never')
Cron = Annotated[str, AfterValidator(checked_cron), CRON]
