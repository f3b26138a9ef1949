"""Decide how marks change a rule's maturity, and when it becomes a warning (anti-pattern)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from butlers.kernel.secrets import masked
from butlers.kernel.text import one_line
from butlers.memory.model import Maturity, Origin, RuleOutcome
from butlers.memory.policy.suspicion import doubt
from butlers.memory.settings import RulesConfig

HARM_WEIGHT = 4
KEPT_REASONS = 100
"""The number of reasons that a rule keeps; its applications keep all."""

COUNTED = ("applied_count", "success_count", "harmful_count", "effectiveness_score")
REPORTED = "reported_harmful"
_SMOOTHING = 0.01
_NO_REASON = "it was marked harmful without a reason given"


@dataclass(frozen=True, slots=True)
class RuleState:
    """The columns of a rule that marks change."""

    maturity: Maturity
    applied_count: int
    success_count: int
    harmful_count: int
    effectiveness_score: float
    created_at: datetime
    needs_inversion: bool = False
    reported_harmful: bool = False
    """Whether marks of programs alone speak for a warning, so that a person has to decide."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "RuleState":
        """Return the state of a stored rule."""
        known = {name: row[name] for name in (*COUNTED, "created_at")}
        known |= {"needs_inversion": awaits_inversion(row), REPORTED: is_reported(row)}
        return cls(Maturity(row["maturity"]), **known)


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark of a rule: helpful or harmful, by whom, and when."""

    outcome: RuleOutcome
    actor: str
    origin: Origin
    at: datetime

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Mark":
        """Return a stored mark."""
        outcome, origin = RuleOutcome(row["outcome"]), Origin(row["origin"])
        return cls(outcome, row["actor"] or "", origin, row["created_at"])


@dataclass(frozen=True, slots=True)
class Author:
    """Who stored a rule."""

    actor: str
    origin: Origin

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Author":
        """Return the author of a stored rule."""
        return cls(row["stored_by"] or "", Origin(row["origin"]))


def after_mark(
    rule: RuleState, mark: Mark, earlier: Sequence[Mark], author: Author, settings: RulesConfig
) -> RuleState:
    """Return the rule after a mark.

    Unless `own_marks` is set, its author's marks do not promote it. A rule that a person stated
    becomes a warning only by a person's mark; until then it is reported harmful.
    """
    marks = (*earlier, mark)
    if mark.outcome is RuleOutcome.HARMFUL:
        return _reported(after_harmful(rule, settings, mark.at), marks, author)
    after = after_helpful(rule, settings, mark.at)
    after = replace(after, reported_harmful=rule.reported_harmful and not mark.origin.is_person)
    if settings.own_marks:
        return after
    by_others = [m for m in marks if m.outcome is RuleOutcome.HELPFUL and m.actor != author.actor]
    judged = replace(after, maturity=rule.maturity, success_count=len(by_others))
    return replace(after, maturity=_promoted(judged, settings, mark.at))


def replayed(
    marks: Sequence[Mark], born_at: datetime, author: Author, settings: RulesConfig
) -> RuleState:
    """Return a rule after these marks alone, starting as a candidate."""
    state = RuleState(Maturity.CANDIDATE, 0, 0, 0, 0.0, born_at)
    for number, mark in enumerate(marks):
        state = after_mark(state, mark, marks[:number], author, settings)
        if state.needs_inversion:
            state = replace(state, maturity=Maturity.ANTI_PATTERN, needs_inversion=False)
    return state


def _reported(after: RuleState, marks: Sequence[Mark], author: Author) -> RuleState:
    """Keep a person's rule as it is, but reported harmful, until a person marks it harmful too."""
    harmful = after.needs_inversion or after.reported_harmful
    people = [m for m in marks if m.outcome is RuleOutcome.HARMFUL and m.origin.is_person]
    if people or not author.origin.is_person:
        return replace(after, needs_inversion=harmful, reported_harmful=False)
    return replace(after, needs_inversion=False, reported_harmful=harmful)


def after_helpful(rule: RuleState, settings: RulesConfig, now: datetime) -> RuleState:
    """Return the rule after a helpful mark: it may rise one step, or need inversion no longer."""
    applied, successes = rule.applied_count + 1, rule.success_count + 1
    marked = replace(
        rule,
        applied_count=applied,
        success_count=successes,
        effectiveness_score=successes / applied,
    )
    still_harmful = rule.needs_inversion and _is_harmful(marked, settings)
    risen = _promoted(marked, settings, now)
    return replace(marked, maturity=risen, needs_inversion=still_harmful)


def after_harmful(rule: RuleState, settings: RulesConfig, now: datetime) -> RuleState:
    """Return the rule after a harmful mark: it may fall one step, or need inversion."""
    successes, harms = rule.success_count, rule.harmful_count + 1
    marked = replace(
        rule,
        applied_count=rule.applied_count + 1,
        harmful_count=harms,
        effectiveness_score=successes / (successes + HARM_WEIGHT * harms + _SMOOTHING),
    )
    fallen, harmful = _demoted(marked, settings), _is_harmful(marked, settings)
    return replace(marked, maturity=fallen, needs_inversion=harmful)


def awaits_inversion(row: Mapping[str, Any]) -> bool:
    """Whether a stored rule waits to become a warning."""
    wanted: bool = row["metadata"].get("needs_inversion") is True
    return wanted and row["maturity"] != Maturity.ANTI_PATTERN and row["state"] != "forgotten"


def is_reported(row: Mapping[str, Any]) -> bool:
    """Whether a stored rule of a person is reported harmful, and no person has decided yet."""
    return row["metadata"].get(REPORTED) is True


def reasons(row: Mapping[str, Any]) -> list[str]:
    """Return why a stored rule was harmful, oldest first."""
    return list(row["metadata"].get("harmful_reasons", ()))


def shown_reason(reason: str) -> str:
    """Return a reason without secrets, on one line."""
    return one_line(masked(reason).text)


def with_reason(known: Sequence[str], reason: str | None) -> list[str]:
    """Add a reason, and drop the oldest beyond KEPT_REASONS."""
    return [*known, *([reason] if reason else [])][-KEPT_REASONS:]


def warning(content: str, given: Sequence[str]) -> str:
    """Return the text of an inverted rule, with each reason once and without suspicious ones."""
    quoted = (shown_reason(reason) for reason in given if not doubt(reason))
    because = "; ".join(dict.fromkeys(quoted)) or _NO_REASON
    return f"ANTI-PATTERN: Do NOT {content}. This caused problems because: {because}"


def _promoted(rule: RuleState, settings: RulesConfig, now: datetime) -> Maturity:
    established, proven = settings.promote_to_established, settings.promote_to_proven
    successes, score = rule.success_count, rule.effectiveness_score
    if rule.maturity is Maturity.CANDIDATE:
        risen = successes >= established.min_successes and score >= established.min_effectiveness
        return Maturity.ESTABLISHED if risen else rule.maturity
    if rule.maturity is Maturity.ESTABLISHED:
        risen = successes >= proven.min_successes and score >= proven.min_effectiveness
        aged = now - rule.created_at >= timedelta(days=proven.min_age_days)
        return Maturity.PROVEN if risen and aged else rule.maturity
    return rule.maturity


def _demoted(rule: RuleState, settings: RulesConfig) -> Maturity:
    established, proven = settings.promote_to_established, settings.promote_to_proven
    score = rule.effectiveness_score
    if rule.maturity is Maturity.PROVEN and score < proven.min_effectiveness:
        return Maturity.ESTABLISHED
    if rule.maturity is Maturity.ESTABLISHED and score < established.min_effectiveness:
        return Maturity.CANDIDATE
    return rule.maturity


def _is_harmful(rule: RuleState, settings: RulesConfig) -> bool:
    limit = settings.harmful_to_antipattern
    harms_often = rule.harmful_count >= limit.min_harmful
    helps_seldom = rule.effectiveness_score < limit.max_effectiveness
    return harms_often and helps_seldom and rule.maturity is not Maturity.ANTI_PATTERN
