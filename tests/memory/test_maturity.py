"""How marks move a rule, decided without a database."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butlers.memory.model import Maturity
from butlers.memory.policy import maturity
from butlers.memory.policy.maturity import RuleState, after_harmful, after_helpful
from butlers.memory.settings import RulesConfig

BORN = datetime(2026, 1, 1, tzinfo=UTC)
SOON, LATER = BORN + timedelta(days=1), BORN + timedelta(days=30)
SETTINGS = RulesConfig()
CANDIDATE, ESTABLISHED, PROVEN, ANTI_PATTERN = Maturity


def rule(stage: Maturity, successes: int, harms: int = 0, others: int = 0) -> RuleState:
    """A rule with these outcomes, and some applications that came to nothing."""
    return RuleState(stage, successes + harms + others, successes, harms, 0.0, BORN)


@pytest.mark.contract("R21.1")
def test_a_helpful_mark_counts_and_takes_the_share_of_successes():
    after = after_helpful(rule(CANDIDATE, 2, 1), SETTINGS, SOON)
    assert (after.applied_count, after.success_count, after.harmful_count) == (4, 3, 1)
    assert after.effectiveness_score == 3 / 4


@pytest.mark.contract("R21.2", "N5.3")
def test_a_harmful_mark_counts_and_weighs_four_times():
    after = after_harmful(rule(CANDIDATE, 8, 1), SETTINGS, SOON)
    assert (after.applied_count, after.success_count, after.harmful_count) == (10, 8, 2)
    assert after.effectiveness_score == 8 / (8 + 4 * 2 + 0.01)


@pytest.mark.contract("R21.2")
def test_a_rule_that_only_harmed_is_worth_nothing():
    assert after_harmful(rule(CANDIDATE, 0), SETTINGS, SOON).effectiveness_score == 0.0


@pytest.mark.contract("R03.1", "L7")
@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (rule(CANDIDATE, 4), ESTABLISHED),
        (rule(CANDIDATE, 3), CANDIDATE),
        (rule(CANDIDATE, 5, 4), ESTABLISHED),  # 6 of 10: exactly 0.6
        (rule(CANDIDATE, 4, 4), CANDIDATE),  # 5 of 9
    ],
)
def test_a_candidate_is_established_at_five_successes_and_six_tenths(before, expected):
    assert after_helpful(before, SETTINGS, SOON).maturity is expected


@pytest.mark.contract("R03.2", "L7")
@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (rule(ESTABLISHED, 14), LATER, PROVEN),
        (rule(ESTABLISHED, 13), LATER, ESTABLISHED),
        (rule(ESTABLISHED, 14), LATER - timedelta(microseconds=1), ESTABLISHED),
        (rule(ESTABLISHED, 15, 4), LATER, PROVEN),  # 16 of 20: exactly 0.8
        (rule(ESTABLISHED, 15, 5), LATER, ESTABLISHED),
        (rule(CANDIDATE, 40), LATER, ESTABLISHED),  # one step per mark
    ],
)
def test_an_established_rule_is_proven_at_fifteen_successes_and_thirty_days(before, now, expected):
    assert after_helpful(before, SETTINGS, now).maturity is expected


@pytest.mark.contract("R03.3")
@pytest.mark.parametrize(("successes", "expected"), [(6, CANDIDATE), (7, ESTABLISHED)])
def test_an_established_rule_falls_below_six_tenths(successes, expected):
    # 6 / 10.01 is below 0.6, 7 / 11.01 is above
    assert after_harmful(rule(ESTABLISHED, successes), SETTINGS, SOON).maturity is expected


@pytest.mark.contract("R03.4", "L7")
@pytest.mark.parametrize(
    ("successes", "expected"), [(16, ESTABLISHED), (17, PROVEN), (0, ESTABLISHED)]
)
def test_a_proven_rule_falls_one_step_below_eight_tenths(successes, expected):
    assert after_harmful(rule(PROVEN, successes), SETTINGS, SOON).maturity is expected


@pytest.mark.contract("L7")
@pytest.mark.parametrize(
    ("stage", "settings"),
    [
        (ESTABLISHED, {"promote_to_established": {"min_effectiveness": 9 / 13.01}}),
        (PROVEN, {"promote_to_proven": {"min_effectiveness": 9 / 13.01}}),
    ],
)
def test_a_score_that_equals_the_threshold_does_not_fall(stage, settings):
    exact = RulesConfig.model_validate(settings)
    assert after_harmful(rule(stage, 9), exact, SOON).maturity is stage


@pytest.mark.contract("R21.3")
def test_a_score_that_equals_the_limit_needs_no_inversion():
    exact = RulesConfig.model_validate(
        {"harmful_to_antipattern": {"max_effectiveness": 2 / (2 + 4 * 3 + 0.01)}}
    )
    assert not after_harmful(rule(CANDIDATE, 2, 2), exact, SOON).needs_inversion


@pytest.mark.contract("R03.5", "R21.3")
@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (rule(CANDIDATE, 0, 2), True),
        (rule(CANDIDATE, 0, 1), False),
        (rule(CANDIDATE, 5, 2), True),  # 5 / 17.01 is below 0.3
        (rule(CANDIDATE, 6, 2), False),  # 6 / 18.01 is above
        (rule(PROVEN, 0, 2), True),
        (rule(ANTI_PATTERN, 0, 9), False),
    ],
)
def test_three_harms_and_little_effect_need_inversion(before, expected):
    assert after_harmful(before, SETTINGS, SOON).needs_inversion is expected


@pytest.mark.contract("L7")
def test_a_helpful_rule_earns_its_way_out_of_a_waiting_inversion():
    waiting = replace(rule(CANDIDATE, 0, 3), needs_inversion=True)
    once = after_helpful(waiting, SETTINGS, SOON)
    assert (once.effectiveness_score, once.needs_inversion) == (1 / 4, True)
    twice = after_helpful(replace(waiting, applied_count=4, success_count=1), SETTINGS, SOON)
    assert (twice.effectiveness_score, twice.needs_inversion) == (2 / 5, False)


@pytest.mark.contract("L7")
@pytest.mark.parametrize("after", [after_helpful, after_harmful])
def test_a_warning_stays_a_warning(after):
    assert after(rule(ANTI_PATTERN, 50, 0), SETTINGS, LATER).maturity is ANTI_PATTERN


@pytest.mark.contract("N8")
def test_thresholds_are_settings():
    easy = RulesConfig.model_validate(
        {
            "promote_to_established": {"min_successes": 1, "min_effectiveness": 0.5},
            "promote_to_proven": {
                "min_successes": 2,
                "min_effectiveness": 0.5,
                "min_age_days": 0,
            },
            "harmful_to_antipattern": {"min_harmful": 1, "max_effectiveness": 0.2},
        }
    )
    assert after_helpful(rule(CANDIDATE, 0), easy, BORN).maturity is ESTABLISHED
    assert after_helpful(rule(ESTABLISHED, 1), easy, BORN).maturity is PROVEN
    assert after_harmful(rule(CANDIDATE, 0), easy, BORN).needs_inversion


@pytest.mark.contract("R03.5")
def test_a_warning_names_the_rule_and_every_reason_once():
    text = maturity.warning("reply to all", ["it leaked", "people complained", "it leaked"])
    assert text == (
        "ANTI-PATTERN: Do NOT reply to all. "
        "This caused problems because: it leaked; people complained"
    )


def test_a_warning_without_reasons_still_says_why():
    assert maturity.warning("shout", []).startswith(
        "ANTI-PATTERN: Do NOT shout. This caused problems because: it was marked harmful"
    )


def test_a_rule_carries_its_latest_reasons():
    many = [str(i) for i in range(maturity.KEPT_REASONS)]
    assert maturity.with_reason(many, "new") == [*many[1:], "new"]
    assert maturity.with_reason(["a"], None) == ["a"]


# Against a model that works on exact numbers and on the story of all marks.


def told(marks: list[bool], ages: list[int]) -> tuple[Maturity, Fraction, bool]:
    """Where a rule stands after marks, each at an age in days, by the words of the contract."""
    stage, score, turned = CANDIDATE, Fraction(0), False
    for at, helpful in enumerate(marks):
        good, bad = marks[: at + 1].count(True), marks[: at + 1].count(False)
        if helpful:
            score = Fraction(good, good + bad)
            if stage is CANDIDATE and good >= 5 and score >= Fraction(6, 10):
                stage = ESTABLISHED
            elif (
                stage is ESTABLISHED and good >= 15 and score >= Fraction(8, 10) and ages[at] >= 30
            ):
                stage = PROVEN
            turned = turned and score < Fraction(3, 10)
        else:
            score = good / (good + 4 * bad + Fraction(1, 100))
            if stage is PROVEN and score < Fraction(8, 10):
                stage = ESTABLISHED
            elif stage is ESTABLISHED and score < Fraction(6, 10):
                stage = CANDIDATE
            turned = bad >= 3 and score < Fraction(3, 10)
    return stage, score, turned


@pytest.mark.contract("R03.1", "R03.2", "R03.3", "R03.4", "R21.1", "R21.2", "R21.3", "L7")
@given(st.lists(st.tuples(st.sampled_from([True] * 5 + [False]), st.integers(0, 3)), max_size=60))
def test_any_story_of_marks_ends_where_the_contract_says(story):
    marks = [helpful for helpful, _ in story]
    ages = [sum(days for _, days in story[: i + 1]) for i in range(len(story))]
    state = rule(CANDIDATE, 0)
    for helpful, age in zip(marks, ages, strict=True):
        after = after_helpful if helpful else after_harmful
        verdict = after(state, SETTINGS, BORN + timedelta(days=age))
        state = RuleState(
            verdict.maturity,
            verdict.applied_count,
            verdict.success_count,
            verdict.harmful_count,
            verdict.effectiveness_score,
            BORN,
            verdict.needs_inversion,
        )
    stage, score, turned = told(marks, ages)
    assert (state.maturity, state.needs_inversion) == (stage, turned)
    assert state.effectiveness_score == pytest.approx(float(score))
    assert state.applied_count == len(marks)
