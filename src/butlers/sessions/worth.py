"""Sum up whether memory was worth it: what prompts were given, what was used, what it cost."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from butlers.sessions.injection_log import InjectionRecord
from butlers.sessions.injection_report import count_of, plain_line
from butlers.sessions.injections import Delivery, InjectionEvent
from butlers.sessions.verdicts import Verdict

_MOST_LISTED = 3
_SUMS = ("prompts", "given", "used", "ignored", "harmful", "unjudged", "failed", "late", "tokens")


@dataclass(slots=True)
class _Line:
    """One memory, over all prompts that were given it."""

    memory_type: str = ""
    text: str = ""
    verdicts: Counter[Verdict] = field(default_factory=Counter)

    def shown(self, id: UUID) -> dict[str, Any]:
        counts = {str(verdict): self.verdicts[verdict] for verdict in Verdict}
        return {"memory_type": self.memory_type, "id": str(id), "text": self.text, **counts}


def sum_up(records: Sequence[InjectionRecord], days: int) -> dict[str, Any]:
    """Sum up injections: in all, by project and agent, and the memories used and ignored most.

    Prompts and tool calls count; of session starts only their number and tokens.
    """
    starts = [record for record in records if record.event is InjectionEvent.START]
    lines = _by_memory(record for record in records if record.event is not InjectionEvent.START)
    return {
        "days": days,
        **_sums(records),
        "starts": len(starts),
        "start_tokens": sum(record.tokens for record in starts),
        "by": _by_project(records),
        "most_used": _most(lines, Verdict.USED),
        "most_ignored": _most(lines, Verdict.IGNORED),
    }


def _by_project(records: Iterable[InjectionRecord]) -> list[dict[str, Any]]:
    groups: defaultdict[tuple[str, str], list[InjectionRecord]] = defaultdict(list)
    for record in records:
        groups[record.project, record.agent].append(record)
    return [
        {"project": project, "agent": agent, **_sums(some)}
        for (project, agent), some in sorted(groups.items())
    ]


def _sums(records: Iterable[InjectionRecord]) -> dict[str, int]:
    counts = Counter[str]()
    for record in records:
        if record.event is InjectionEvent.START:
            continue
        counts["prompts"] += 1
        counts["tokens"] += record.tokens
        counts["failed"] += record.outcome is Delivery.FAILED
        counts["late"] += record.outcome is Delivery.LATE
        if record.lines and record.outcome is not Delivery.FAILED:
            counts["given"] += 1
            counts[str(record.verdict or "unjudged")] += 1
    return {name: counts[name] for name in _SUMS}


def _by_memory(records: Iterable[InjectionRecord]) -> dict[UUID, _Line]:
    memories: defaultdict[UUID, _Line] = defaultdict(_Line)
    for record in records:
        for line in record.lines:
            known = memories[line.id]
            known.memory_type, known.text = line.memory_type, plain_line(line.text)
            if verdict := record.verdicts.get(str(line.id)):
                known.verdicts[verdict] += 1
    return dict(memories)


def _most(lines: Mapping[UUID, _Line], verdict: Verdict) -> list[dict[str, Any]]:
    some = [(line.verdicts[verdict], line.text, id) for id, line in lines.items()]
    some = sorted((one for one in some if one[0]), key=lambda one: (-one[0], one[1]))
    return [lines[id].shown(id) for _, _, id in some[:_MOST_LISTED]]


def in_sentences(worth: Mapping[str, Any]) -> list[str]:
    """Say it in sentences."""
    days = count_of(worth["days"], "day")
    if not worth["prompts"] and not worth["starts"]:
        return [f"In {days} no connected agent asked for memory."]
    lines = [
        f"In {days} memory was given at {worth['given']} of {count_of(worth['prompts'], 'prompt')}."
    ]
    lines += [*_outcomes(worth), *_cost(worth)]
    for verdict in (Verdict.USED, Verdict.IGNORED):
        for one in worth[f"most_{verdict}"]:
            lines.append(f"{verdict.capitalize()} {count_of(one[verdict], 'time')}: {one['text']}")
    return lines


def _outcomes(worth: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"Answers used it at {worth['used']}, ignored it at {worth['ignored']}; "
        f"the user corrected it at {worth['harmful']}; {worth['unjudged']} are not judged yet."
    )
    if worth["failed"] or worth["late"]:
        yield (
            f"{count_of(worth['failed'], 'prompt')} went without memory because it failed or took "
            f"too long; {worth['late']} were answered from words alone."
        )


def _cost(worth: Mapping[str, Any]) -> Iterator[str]:
    starts = f"{count_of(worth['start_tokens'], 'token')} at {count_of(worth['starts'], 'start')}"
    yield f"It cost {count_of(worth['tokens'], 'token')} at prompts and {starts}."
