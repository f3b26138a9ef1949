"""What all sections of settings share: strictness, words for what is valid, and refusal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, ClassVar

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic_core import PydanticCustomError


class SettingsSection(BaseModel):
    """A table of settings: frozen, with known keys only, where text is never taken for a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class InlineSection(SettingsSection):
    """A section that is written on one line, as `key = { … }`."""


@dataclass(frozen=True, slots=True)
class SpendingLimits:
    """What a day's completions may come to; 0 sets no limit."""

    runs: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    each: "SpendingLimits | None" = None
    """What those for one tenant may come to."""


@dataclass(frozen=True, slots=True)
class Check:
    """What `butlers doctor` asks for a module; where two are equal it asks once.

    `look` is given what it is about; it says that all is well, or raises an error of ours.
    """

    name: str
    about: str
    look: Callable[[str], str]


class ModuleSection(SettingsSection):
    """The settings of a module: what the house knows of it without loading it."""

    butler_jobs: ClassVar[tuple[str, ...]] = ()
    """Its jobs whose times an entry of `[butler.schedule]` sets, which then needs no prompt."""

    def limits(self) -> tuple[SpendingLimits, str] | None:
        """What modules may spend on completions and which section says so, if one of these does."""
        return None

    def checks(self) -> Sequence[Check]:
        """What could be wrong with what it needs."""
        return ()


@dataclass(frozen=True)
class Valid:
    """What a setting accepts, in words, where its type and bounds do not say it all."""

    text: str


@dataclass(frozen=True)
class Fault:
    """One wrong setting: its key within the section, what was found and what is valid."""

    key: str
    found: object
    valid: str


def refuse(faults: Sequence[Fault]) -> None:
    """Reject the section being validated when there is at least one fault, keeping each of them."""
    if faults:
        message = "; ".join(f"{fault.key}: {fault.valid}" for fault in faults)
        raise PydanticCustomError("faults", "{message}", {"message": message, "faults": faults})


def checked_cron(expression: str) -> str:
    """The expression itself when it is empty or parses; otherwise a ValueError."""
    if expression:
        # Any start will do: only the grammar is of interest here.
        try:
            CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC))
        except CronSimError as error:
            raise ValueError(str(error)) from error
    return expression


CRON = Valid('a cron expression in UTC such as "0 3 * * *", or "" for never')
Cron = Annotated[str, AfterValidator(checked_cron), CRON]
