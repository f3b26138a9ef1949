"""What completions may cost in a day is never exceeded, and what they cost is on record."""

import asyncio
from datetime import date
from functools import partial
from typing import Any

import asyncpg
import pytest

from butlers.db.postgres import Access, Database
from butlers.errors import BudgetExhausted, Unavailable
from butlers.jobs.spending import (
    BudgetAccount,
    CountedModel,
    Spending,
    Spent,
    limits_of,
    model_of,
    refusal,
)
from butlers.kernel.sections import SpendingLimits
from butlers.llm import Completion, CompletionFailed, NotReached, Usage
from butlers.module import HasBudget
from butlers.settings.sections import ButlerSettings
from conftest import WalkingClock
from memory.scripted_model import ScriptedModel


def budgeted(
    database: Database, clock: WalkingClock, model: Any, **limits: float
) -> tuple[CountedModel, Spending]:
    spending = Spending(lambda: database, SpendingLimits(**limits), clock)  # type: ignore[arg-type]
    return CountedModel(model, spending), spending


@pytest.mark.parametrize(
    ("limits", "spent", "word"),
    [
        (SpendingLimits(), Spent(10**6, 10**9, 1e6, 9), None),
        (SpendingLimits(3), Spent(2), None),
        (SpendingLimits(3), Spent(3), "3 of the 3 that a.b.daily_max_runs"),
        (SpendingLimits(0, 1_000), Spent(1, 999), None),
        (SpendingLimits(0, 1_000), Spent(1, 1_234), "1,234 of the 1,000"),
        (SpendingLimits(0, 0, 0.5), Spent(1, 9, 0.49), None),
        (SpendingLimits(0, 0, 0.5), Spent(1, 9, 0.5), "0.5000 of the 0.5000"),
        (SpendingLimits(9, 1_000), Spent(1, 0, 0, 1), "not known yet"),
        (SpendingLimits(9), Spent(1, 0, 0, 1), None),
    ],
)
def test_what_reaches_a_limit_is_refused(
    limits: SpendingLimits, spent: Spent, word: str | None
) -> None:
    reason = refusal(limits, spent, "a.b")
    assert reason is None if word is None else word in str(reason)


async def test_no_prompt_tells_a_secret(core: Database, clock: WalkingClock) -> None:
    model = ScriptedModel("yes")
    counted, _ = budgeted(core, clock, model)
    await counted.complete("Is the password hunter22? It is.", system="The pin is 4711.")
    await counted.complete("password=hunter22", system="Be brief.")
    assert model.prompts[1] == "password=[secret: password]"
    assert model.calls[0]["system"] == "The pin is [secret: pin]."


async def test_of_eight_at_once_only_as_many_as_allowed_are_asked(
    core: Database, core_access: Access, clock: WalkingClock
) -> None:
    """Over two pools of connections, as two processes would have."""
    model = ScriptedModel("yes")
    other = await Database.open(core_access)
    try:
        models = [budgeted(each, clock, model, runs=3)[0] for each in (core, other) * 4]
        told = await asyncio.gather(
            *(each.complete("hello") for each in models), return_exceptions=True
        )
    finally:
        await other.close()
    assert sum(isinstance(one, Completion) for one in told) == 3
    assert sum(isinstance(one, BudgetExhausted) for one in told) == 5
    assert len(model.prompts) == 3


@pytest.mark.parametrize("limits", [{"tokens": 15}, {"cost_usd": 0.001}, {"runs": 1}])
async def test_a_budget_that_is_used_up_lasts_until_midnight(
    core: Database, clock: WalkingClock, limits: dict[str, float]
) -> None:
    scripted = ScriptedModel("yes")
    model, spending = budgeted(core, clock, scripted, **limits)
    await model.check()
    await model.complete("one", label="test")
    clock.advance(hours=11, minutes=59)
    with pytest.raises(BudgetExhausted, match="starts anew at 00:00 UTC"):
        await model.check()
    with pytest.raises(BudgetExhausted):
        await model.complete("two")
    clock.advance(minutes=1)
    assert (await model.complete("three")).text == "yes"
    assert scripted.prompts == ["one", "three"]
    assert await spending.today() == Spent(1, 15, 0.001, 0)


async def test_a_failed_completion_counts_with_what_it_cost(
    core: Database, clock: WalkingClock
) -> None:
    failing = ScriptedModel(CompletionFailed("no answer", Usage(100, None, 0.25)))
    model, spending = budgeted(core, clock, failing)
    with pytest.raises(CompletionFailed, match="no answer"):
        await model.complete("one")
    (day,) = await spending.days(1)
    assert (day.day, day.runs, day.failed) == (date(2026, 1, 10), 1, 1)
    assert (day.input_tokens, day.output_tokens, day.cost_usd) == (100, 0, 0.25)


async def test_a_completion_nobody_waits_for_any_more_counts(
    core: Database, clock: WalkingClock, core_owner: asyncpg.Connection
) -> None:
    begun = asyncio.Event()

    async def hang(_: str) -> str:
        begun.set()
        await asyncio.sleep(60)
        return ""

    model, spending = budgeted(core, clock, ScriptedModel(hang), tokens=100)
    asking = asyncio.create_task(model.complete("one"))
    await begun.wait()
    with pytest.raises(BudgetExhausted, match="not known yet"):
        await model.check()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await spending.today() == Spent(1, 0, 0.0, 0)
    assert await core_owner.fetchval("select outcome from language_model_spend") == "failed"


async def test_a_completion_whose_process_died_does_not_block_for_ever(
    core: Database, clock: WalkingClock
) -> None:
    model, spending = budgeted(core, clock, ScriptedModel("yes"), tokens=100)
    await spending.reserve("claude", "lost", 300)
    with pytest.raises(BudgetExhausted):
        await model.check()
    clock.advance(minutes=7)
    await model.check()
    assert (await spending.today()).runs == 1


async def test_an_answer_is_not_lost_because_its_cost_cannot_be_noted(
    core: Database, clock: WalkingClock
) -> None:
    databases = iter([core])

    def database() -> Database:
        try:
            return next(databases)
        except StopIteration:
            raise Unavailable("away") from None

    model = CountedModel(ScriptedModel("yes"), Spending(database, SpendingLimits(), clock))
    assert (await model.complete("one")).text == "yes"
    with pytest.raises(Unavailable, match="away"):
        await model.complete("two")


async def test_what_sessions_cost_leaves_the_budget_of_modules_alone(
    core: Database, clock: WalkingClock
) -> None:
    sessions = Spending(lambda: core, SpendingLimits(), clock)
    for _ in range(3):
        await sessions.reserve("claude", "ask", 60)
    limits = SpendingLimits(runs=1, tokens=5)
    await Spending(lambda: core, limits, clock, BudgetAccount.MODULES).reserve(
        "claude", "sweep", 60
    )
    (day,) = await sessions.days(1)
    assert day.runs == 4
    assert (await sessions.today()).runs == 3


async def test_days_come_newest_first_and_only_as_many_as_asked(
    core: Database, clock: WalkingClock
) -> None:
    model, spending = budgeted(core, clock, ScriptedModel("yes"))
    for _ in range(3):
        await model.complete("x")
        clock.advance(days=1)
    assert [day.day.day for day in await spending.days(30)] == [12, 11, 10]
    assert [day.day.day for day in await spending.days(2)] == [12]
    assert sum(day.input_tokens for day in await spending.days(30)) == 30


@pytest.mark.contract("L28")
async def test_a_model_that_does_not_answer_is_tried_ever_more_rarely_one_at_a_time(
    core: Database, core_access: Access, clock: WalkingClock
) -> None:
    """Over two pools of connections, as two processes would have."""
    asked, begun, go_on = [], asyncio.Event(), asyncio.Event()

    async def away(prompt: str) -> str:
        asked.append(prompt)
        begun.set()
        if prompt == "probe":
            await go_on.wait()
        raise NotReached("nobody there")

    other = await Database.open(core_access)
    try:
        one, two = (
            CountedModel(
                ScriptedModel(away),
                Spending(
                    partial(lambda each: each, each), SpendingLimits(), clock, BudgetAccount.MODULES
                ),
            )
            for each in (core, other)
        )
        for minutes in (1, 2, 4, 8, 16, 32, 60, 60):
            with pytest.raises(NotReached, match="nobody there"):
                await one.complete("first")
            clock.advance(minutes=minutes, seconds=-1)
            for model in (one, two):
                with pytest.raises(NotReached, match="in a row; it is asked again after"):
                    await model.check()
            clock.advance(seconds=1)
        begun.clear()
        probe = asyncio.create_task(one.complete("probe"))
        await begun.wait()
        with pytest.raises(NotReached, match="it is being tried just now"):
            await two.complete("meanwhile")
        go_on.set()
        await asyncio.gather(probe, return_exceptions=True)
    finally:
        await other.close()
    assert asked == ["first"] * 8 + ["probe"]


async def test_a_failure_is_no_outage(core: Database, clock: WalkingClock) -> None:
    failing = ScriptedModel(CompletionFailed("cut off"))
    model = CountedModel(
        failing, Spending(lambda: core, SpendingLimits(), clock, BudgetAccount.MODULES)
    )
    for _ in range(3):
        with pytest.raises(CompletionFailed, match="cut off"):
            await model.complete("x")


async def test_what_is_asked_reaches_the_model_unchanged(
    core: Database, clock: WalkingClock
) -> None:
    scripted = ScriptedModel("yes")
    model, _ = budgeted(core, clock, scripted)
    await model.complete("p", system="s", schema={"type": "object"}, timeout_seconds=7, label="l")
    assert model.name == "scripted"
    assert scripted.prompts == ["p"]
    assert scripted.calls == [
        {"system": "s", "schema": {"type": "object"}, "timeout_seconds": 7, "label": "l"}
    ]


def test_the_settings_choose_the_model_and_its_budget() -> None:
    document: dict[str, Any] = {"butler": {"name": "general"}}
    settings = ButlerSettings.model_validate(document)
    limits, section = limits_of(settings)
    spending = Spending(lambda: None, limits)  # type: ignore[arg-type,return-value]
    assert (limits, section) == (
        SpendingLimits(48, each=SpendingLimits(24)),
        "modules.memory.consolidation",
    )
    assert model_of(settings, spending) is None
    document |= {
        "runtime": {"kind": "command", "command": ["cat"]},
        "modules": {"memory": {"consolidation": {"daily_max_runs": 2, "daily_max_cost_usd": 1.5}}},
    }
    settings = ButlerSettings.model_validate(document)
    assert limits_of(settings)[0] == SpendingLimits(2, 0, 1.5, SpendingLimits(24))
    model = model_of(settings, spending)
    assert isinstance(model, CountedModel)
    assert isinstance(model, HasBudget)
    assert not isinstance(ScriptedModel("x"), HasBudget)


@pytest.mark.contract("R12.2")
async def test_a_completion_may_take_as_long_as_the_runtime_says(
    core: Database, clock: WalkingClock
) -> None:
    asked = ScriptedModel("x")
    model = CountedModel(asked, Spending(lambda: core, SpendingLimits(), clock), 17)
    await model.for_tenant("acme").complete("x")
    await model.complete("x", timeout_seconds=5)
    assert [call["timeout_seconds"] for call in asked.calls] == [17, 5]
