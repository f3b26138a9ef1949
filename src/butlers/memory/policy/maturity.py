"""How a rule rises and falls with its outcomes, and how it becomes a warning against itself."""

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
"""Reasons a rule carries along; its applications keep every one."""

_SMOOTHING = 0.01
_NO_REASON = "it was marked harmful without a reason given"


@dataclass(frozen=True, slots=True)
class RuleState:
    """What feedback looks at in a rule."""

    maturity: Maturity
    applied_count: int
    success_count: int
    harmful_count: int
    effectiveness_score: float
    created_at: datetime
    needs_inversion: bool = False

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "RuleState":
        """The state of a stored rule."""
        return cls(
            maturity=Maturity(row["maturity"]),
            applied_count=row["applied_count"],
            success_count=row["success_count"],
            harmful_count=row["harmful_count"],
            effectiveness_score=row["effectiveness_score"],
            created_at=row["created_at"],
            needs_inversion=awaits_inversion(row),
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """A use of a rule that counts: what came of it, who said so, and when."""

    outcome: RuleOutcome
    actor: str
    origin: Origin
    at: datetime

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Mark":
        """A stored mark."""
        by = row["actor"] or "", Origin(row["origin"])
        return cls(RuleOutcome(row["outcome"]), *by, row["created_at"])


@dataclass(frozen=True, slots=True)
class Author:
    """Who stored a rule."""

    actor: str
    origin: Origin

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Author":
        """Who stored a stored rule."""
        return cls(row["stored_by"] or "", Origin(row["origin"]))


def after_mark(
    rule: RuleState, mark: Mark, earlier: Sequence[Mark], author: Author, settings: RulesConfig
) -> RuleState:
    """The rule once it was marked, with regard to who marks whose rule.

    Where own marks do not count, its author's lift it no step. What a person stated becomes a
    warning only by a person's word, or that of two callers.
    """
    marks = (*earlier, mark)
    if mark.outcome is RuleOutcome.HARMFUL:
        after = after_harmful(rule, settings, mark.at)
        return after if _may_turn(marks, author) else replace(after, needs_inversion=False)
    after = after_helpful(rule, settings, mark.at)
    if settings.own_marks:
        return after
    by_others = [m for m in marks if m.outcome is RuleOutcome.HELPFUL and m.actor != author.actor]
    judged = replace(after, maturity=rule.maturity, success_count=len(by_others))
    return replace(after, maturity=_promoted(judged, settings, mark.at))


def replayed(
    marks: Sequence[Mark], born_at: datetime, author: Author, settings: RulesConfig
) -> RuleState:
    """What a rule is after these marks, from the candidate it was born as."""
    state = RuleState(Maturity.CANDIDATE, 0, 0, 0, 0.0, born_at)
    for number, mark in enumerate(marks):
        state = after_mark(state, mark, marks[:number], author, settings)
        if state.needs_inversion:
            state = replace(state, maturity=Maturity.ANTI_PATTERN, needs_inversion=False)
    return state


def _may_turn(marks: Sequence[Mark], author: Author) -> bool:
    harmful = [mark for mark in marks if mark.outcome is RuleOutcome.HARMFUL]
    by_a_person = any(mark.origin.is_person for mark in harmful)
    several = len({mark.actor for mark in harmful}) > 1
    return by_a_person or several or not author.origin.is_person


def after_helpful(rule: RuleState, settings: RulesConfig, now: datetime) -> RuleState:
    """The rule once it helped: it may rise one step, and may earn its way out of inversion."""
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
    """The rule once it harmed: it may fall one step, and may have to be inverted."""
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
    """Whether a stored rule is to become a warning and is not yet one."""
    wanted: bool = row["metadata"].get("needs_inversion") is True
    return wanted and row["maturity"] != Maturity.ANTI_PATTERN and row["state"] != "forgotten"


def reasons(row: Mapping[str, Any]) -> list[str]:
    """Why a stored rule was harmful, oldest first."""
    return list(row["metadata"].get("harmful_reasons", ()))


def shown_reason(reason: str) -> str:
    """A reason as it is shown: without secrets, on one line."""
    return one_line(masked(reason).text)


def with_reason(known: Sequence[str], reason: str | None) -> list[str]:
    """The reasons with one more, the oldest dropped when they are too many to carry."""
    return [*known, *([reason] if reason else [])][-KEPT_REASONS:]


def warning(content: str, given: Sequence[str]) -> str:
    """What an inverted rule says; a reason given twice is named once, a doubtful one not at all."""
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
    return (
        rule.maturity is not Maturity.ANTI_PATTERN
        and rule.harmful_count >= limit.min_harmful
        and rule.effectiveness_score < limit.max_effectiveness
    )
