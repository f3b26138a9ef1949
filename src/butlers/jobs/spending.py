"""What completions may cost in a day, what they did cost, and the model whose are counted.

A day is a day in UTC.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any

import structlog

from butlers.clock import Clock, utc_now
from butlers.db.postgres import Database, Transaction
from butlers.db.queries import load
from butlers.errors import BudgetExhausted, ButlersError
from butlers.kernel.sections import Limits
from butlers.llm import (
    Completion,
    CompletionFailed,
    LanguageModel,
    RuntimeOptions,
    ToolServer,
    ToolUser,
    Usage,
    language_model,
)
from butlers.settings.sections import ButlerSettings

_SQL = load(__file__)
# How much longer than its time limit a completion may take before it counts as lost.
_MARGIN = timedelta(minutes=1)

log = structlog.get_logger(__name__)


class Account(StrEnum):
    """On whose account a completion goes; each has a budget of its own, or none."""

    MODULES = "modules"
    SESSIONS = "sessions"


class Outcome(StrEnum):
    """What became of a completion."""

    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Spent:
    """What a day's completions came to so far; those under way have not said yet."""

    runs: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    under_way: int = 0


@dataclass(frozen=True, slots=True)
class DaySpent:
    """What one day came to, as far as runtimes say."""

    day: date
    runs: int
    failed: int
    input_tokens: int
    output_tokens: int
    cost_usd: float


def refusal(limits: Limits, spent: Spent, section: str) -> str | None:
    """Why no completion may be asked for now, or None; `section` is where the limits stand."""
    for setting, limit, reached in (
        ("daily_max_runs", limits.runs, spent.runs),
        ("daily_max_tokens", limits.tokens, spent.tokens),
        ("daily_max_cost_usd", limits.cost_usd, spent.cost_usd),
    ):
        if limit and reached >= limit:
            return (
                f"today's budget is used up: {amount(reached)} of the {amount(limit)} that "
                f"{section}.{setting} allows; it starts anew at 00:00 UTC"
            )
    # What a completion costs is known afterwards only: two at once could both be one too many.
    if spent.under_way and (limits.tokens or limits.cost_usd):
        return "a completion is under way whose cost is not known yet; try again when it has ended"
    return None


def amount(number: float) -> str:
    """A number of runs or tokens, or of dollars, as people read it."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.4f}"


class Spending:
    """The completions on one of a butler's accounts, on record in its database."""

    def __init__(
        self,
        database: Callable[[], Database],
        limits: Limits,
        clock: Clock = utc_now,
        account: Account = Account.SESSIONS,
        section: str = "",
    ) -> None:
        self._database = database
        self._clock = clock
        self._account = account
        self._section = section
        self.limits = limits

    async def check(self) -> None:
        """Raise BudgetExhausted if no completion may be asked for now."""
        self._refuse(await self.today())

    async def today(self) -> Spent:
        """What today came to so far."""
        async with self._database().system_transaction() as tx:
            return await self._spent(tx, self._now())

    async def reserve(self, runtime: str, label: str, seconds: float) -> int:
        """Count a completion before it is asked for; BudgetExhausted if that is one too many."""
        async with self._database().system_transaction() as tx:
            # In a statement of its own: the next one then sees what was written meanwhile.
            await tx.execute(_SQL["take_turn"])
            now = self._now()
            self._refuse(await self._spent(tx, now))
            number: int = await tx.fetch_value(
                _SQL["reserve"],
                day=now.date(),
                account=self._account,
                runtime=runtime,
                label=label,
                now=now,
                ends_by=now + timedelta(seconds=seconds) + _MARGIN,
            )
        return number

    async def settle(self, number: int, outcome: Outcome, usage: Usage) -> None:
        """Note what a completion cost; an answer is not given up because that fails."""
        try:
            async with self._database().system_transaction() as tx:
                cost = asdict(usage)
                await tx.execute(
                    _SQL["settle"], id=number, outcome=outcome, now=self._now(), **cost
                )
        except ButlersError as error:
            log.error("what a completion cost could not be noted", error=str(error))

    async def days(self, count: int) -> list[DaySpent]:
        """What each of the last days came to on all accounts, the newest first, empty ones out."""
        after = self._now().date() - timedelta(days=count)
        async with self._database().system_transaction() as tx:
            return [DaySpent(**row) for row in await tx.fetch(_SQL["days"], after=after)]

    async def _spent(self, tx: Transaction, now: datetime) -> Spent:
        row = await tx.fetch_one(_SQL["spent"], day=now.date(), account=self._account, now=now)
        return Spent(**(row or {}))

    def _refuse(self, spent: Spent) -> None:
        reason = refusal(self.limits, spent, self._section)
        if reason is not None:
            raise BudgetExhausted(reason)

    def _now(self) -> datetime:
        return self._clock().astimezone(UTC)


def limits_of(settings: ButlerSettings) -> tuple[Limits, str]:
    """What a day's completions for modules may come to, and which section says so."""
    told = (module.limits() for module in settings.modules.each())
    return next((limits for limits in told if limits is not None), (Limits(), ""))


def model_of(settings: ButlerSettings, spending: Spending) -> "CountedModel | None":
    """The model that the settings choose, each completion counted; None when there is none."""
    chosen = settings.runtime.model_dump(exclude={"context_timeout_seconds"})
    model = language_model(RuntimeOptions(**chosen))
    if isinstance(model, ToolUser):
        return CountedToolUser(model, spending)
    return None if model is None else CountedModel(model, spending)


class CountedModel:
    """A language model whose every completion is counted first, and refused beyond the budget."""

    def __init__(self, model: LanguageModel, spending: Spending) -> None:
        self.name = model.name
        self._model = model
        self._spending = spending

    async def check(self) -> None:
        """Raise BudgetExhausted if no completion may be asked for now."""
        await self._spending.check()

    async def complete(
        self,
        prompt: str,
        *,
        system: str = "",
        schema: Mapping[str, Any] | None = None,
        timeout_seconds: float = 300.0,
        label: str = "",
    ) -> Completion:
        """The model's answer; BudgetExhausted before it is asked if the budget is used up."""
        number = await self._spending.reserve(self.name, label, timeout_seconds)
        outcome, usage = Outcome.FAILED, Usage()
        try:
            completion = await self._model.complete(
                prompt, system=system, schema=schema, timeout_seconds=timeout_seconds, label=label
            )
            outcome, usage = Outcome.OK, completion.usage
        except CompletionFailed as failure:
            usage = failure.usage
            raise
        finally:
            # Also when the caller gave up waiting: the completion was asked for and counts.
            await self._spending.settle(number, outcome, usage)
        return completion


class CountedToolUser(CountedModel):
    """A counted model that can be given tools."""

    def __init__(self, model: ToolUser, spending: Spending) -> None:
        super().__init__(model, spending)
        self._tool_user = model

    def using(self, tools: ToolServer) -> LanguageModel:
        """The same model with these tools at hand, and no others."""
        return CountedModel(self._tool_user.using(tools), self._spending)
