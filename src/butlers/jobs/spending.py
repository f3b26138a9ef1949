"""Count what completions cost in a day (UTC), and refuse those beyond the budget."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, cast

import structlog

from butlers.clock import Clock, utc_now
from butlers.db.postgres import Database, Transaction
from butlers.db.queries import load
from butlers.errors import BudgetExhausted, ButlersError, ShareExhausted
from butlers.kernel.secrets import masked
from butlers.kernel.sections import SpendingLimits
from butlers.llm import (
    Bounded,
    Completion,
    CompletionFailed,
    LanguageModel,
    NotReached,
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
# How long a model is left alone that did not answer: twice as long each time.
_SHORTEST_REST, _LONGEST_REST = timedelta(minutes=1), timedelta(hours=1)

log = structlog.get_logger(__name__)


class BudgetAccount(StrEnum):
    """The account of a completion; each has a budget of its own, or none."""

    MODULES = "modules"
    SESSIONS = "sessions"


class CompletionOutcome(StrEnum):
    """How a completion ended."""

    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    UNREACHED = "unreached"


@dataclass(frozen=True, slots=True)
class Spent:
    """What a day's completions cost so far; that of running ones is not known yet."""

    runs: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    under_way: int = 0


@dataclass(frozen=True, slots=True)
class DaySpent:
    """What one day cost, as far as runtimes report it."""

    day: date
    runs: int
    failed: int
    input_tokens: int
    output_tokens: int
    cost_usd: float


def refusal(
    limits: SpendingLimits, spent: Spent, section: str, *, of_tenant: bool = False
) -> str | None:
    """Say why no completion may be asked for now, or None; `section` has the limits."""
    for kind, limit, reached in (
        ("runs", limits.runs, spent.runs),
        ("tokens", limits.tokens, spent.tokens),
        ("cost_usd", limits.cost_usd, spent.cost_usd),
    ):
        if limit and reached >= limit:
            whose, share = ("tenant's ", "one tenant's share of ") if of_tenant else ("", "")
            return (
                f"today's {whose}budget is used up: {amount(reached)} of the "
                f"{amount(limit)} that {share}{section}.daily_max_{kind} allows; "
                "it starts anew at 00:00 UTC"
            )
    # The cost is known only afterwards: two at once could both be one too many.
    if spent.under_way and (limits.tokens or limits.cost_usd):
        return "a completion is under way whose cost is not known yet; try again when it has ended"
    return None


def rest(times: int, last_at: datetime | None, asking: bool, now: datetime) -> str | None:
    """Say why a model that did not answer is not asked now, or None; pauses double each time."""
    if not times or last_at is None:
        return None
    until = last_at + min(_SHORTEST_REST * 2 ** min(times - 1, 20), _LONGEST_REST)
    away = f"the language model did not answer {times} times in a row"
    if until > now:
        return f"{away}; it is asked again after {until:%Y-%m-%d %H:%M} UTC"
    return f"{away}; it is being tried just now" if asking else None


def amount(number: float) -> str:
    """Format a number of runs, tokens or dollars."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.4f}"


@dataclass(frozen=True)
class Spending:
    """The completions of one of a butler's accounts, counted in its database."""

    database: Callable[[], Database]
    limits: SpendingLimits
    clock: Clock = utc_now
    account: BudgetAccount = BudgetAccount.SESSIONS
    section: str = ""
    """The settings section that has the limits."""
    tenant: str = ""
    """Whose completions they are, if they also count towards a tenant's share."""

    async def check(self) -> None:
        """Raise BudgetExhausted or NotReached if no completion may be asked for now."""
        async with self.database().system_transaction() as tx:
            await self._refuse(tx, self._now())

    async def today(self) -> Spent:
        """Return what today cost so far, for all tenants."""
        async with self.database().system_transaction() as tx:
            return await self._spent(tx, self._now(), None)

    async def reserve(self, runtime: str, label: str, seconds: float) -> int:
        """Count a completion before it is asked for; BudgetExhausted if that is one too many."""
        async with self.database().system_transaction() as tx:
            # A statement of its own, so that the next one sees what was written meanwhile.
            await tx.execute(_SQL["take_turn"])
            now = self._now()
            await self._refuse(tx, now)
            number: int = await tx.fetch_value(
                _SQL["reserve"],
                day=now.date(),
                account=self.account,
                tenant=self.tenant,
                runtime=runtime,
                label=label,
                now=now,
                ends_by=now + timedelta(seconds=seconds) + _MARGIN,
            )
        return number

    async def settle(self, number: int, outcome: CompletionOutcome, usage: Usage) -> None:
        """Record what a completion cost; log a failure, for the answer is there."""
        try:
            async with self.database().system_transaction() as tx:
                ending = {"outcome": outcome, "now": self._now(), **asdict(usage)}
                await tx.execute(_SQL["settle"], id=number, **ending)
        except ButlersError as error:
            log.error("what a completion cost could not be noted", error=str(error))

    async def days(self, count: int) -> list[DaySpent]:
        """List what each of the last days cost on all accounts, newest first; skip empty days."""
        after = self._now().date() - timedelta(days=count)
        async with self.database().system_transaction() as tx:
            return [DaySpent(**row) for row in await tx.fetch(_SQL["days"], after=after)]

    async def _spent(self, tx: Transaction, now: datetime, tenant: str | None) -> Spent:
        row = await tx.fetch_one(
            _SQL["spent"], day=now.date(), account=self.account, now=now, tenant=tenant
        )
        return Spent(**(row or {}))

    async def _refuse(self, tx: Transaction, now: datetime) -> None:
        row = await tx.fetch_one(_SQL["unanswered"], account=self.account, now=now)
        resting = rest(**row, now=now) if row else None
        if resting is not None and self.account is BudgetAccount.MODULES:
            raise NotReached(resting)
        reason = refusal(self.limits, await self._spent(tx, now, None), self.section)
        if reason is not None:
            raise BudgetExhausted(reason)
        if self.tenant and self.limits.each is not None:
            spent = await self._spent(tx, now, self.tenant)
            reason = refusal(self.limits.each, spent, self.section, of_tenant=True)
            if reason is not None:
                raise ShareExhausted(reason)

    def _now(self) -> datetime:
        return self.clock().astimezone(UTC)


def limits_of(settings: ButlerSettings) -> tuple[SpendingLimits, str]:
    """Return the daily limits of completions for modules, and the section that sets them."""
    limits = (module.limits() for module in settings.modules.each())
    return next(filter(None, limits), (SpendingLimits(), ""))


def model_of(settings: ButlerSettings, spending: Spending) -> "CountedModel | None":
    """Return the model that the settings choose, each completion counted; None if there is none."""
    runtime = settings.runtime
    model = language_model(RuntimeOptions(**runtime.model_dump()))
    if isinstance(model, ToolUser):
        return CountedToolUser(model, spending, runtime.timeout_seconds)
    return None if model is None else CountedModel(model, spending, runtime.timeout_seconds)


class CountedModel:
    """A language model whose completions are counted before they are asked for, or refused."""

    def __init__(
        self, model: LanguageModel, spending: Spending, timeout_seconds: float = 300.0
    ) -> None:
        self.name, self._model, self._spending = model.name, model, spending
        self._timeout_seconds = timeout_seconds

    def for_tenant(self, tenant: str) -> "CountedModel":
        """Return the same model, counted for one tenant as well."""
        spending = replace(self._spending, tenant=tenant)
        return CountedModel(self._model, spending, self._timeout_seconds)

    async def check(self) -> None:
        """Raise BudgetExhausted or NotReached if no completion may be asked for now."""
        await self._spending.check()

    async def context_tokens(self) -> int:
        """Return how many tokens the model can read; 0 if unknown."""
        return await self._model.context_tokens() if isinstance(self._model, Bounded) else 0

    async def complete(
        self,
        prompt: str,
        *,
        system: str = "",
        schema: Mapping[str, Any] | None = None,
        timeout_seconds: float | None = None,
        label: str = "",
    ) -> Completion:
        """Return the model's answer, with secrets in the prompt masked; BudgetExhausted if over."""
        prompt, system = masked(prompt).text, masked(system).text
        seconds = timeout_seconds or self._timeout_seconds
        number = await self._spending.reserve(self.name, label, seconds)
        outcome, usage = CompletionOutcome.FAILED, Usage()
        try:
            completion = await self._model.complete(
                prompt, system=system, schema=schema, timeout_seconds=seconds, label=label
            )
            outcome, usage = CompletionOutcome.OK, completion.usage
        except CompletionFailed as failure:
            usage = failure.usage
            if isinstance(failure, NotReached):
                outcome = CompletionOutcome.UNREACHED
            raise
        finally:
            # Also when the caller gave up waiting: the completion counts.
            await self._spending.settle(number, outcome, usage)
        return completion


class CountedToolUser(CountedModel):
    """A counted model that can be given tools."""

    def using(self, tools: ToolServer) -> LanguageModel:
        """Return the same model with these tools, and no others."""
        model = cast(ToolUser, self._model).using(tools)
        return CountedModel(model, self._spending, self._timeout_seconds)
