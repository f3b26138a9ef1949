"""Judge what became of the memories that a session was given, from its transcript."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from uuid import UUID

from butlers.db.queries import load
from butlers.db.statements import Rows, Touched
from butlers.memory.operations import OperationContext
from butlers.sessions.fail_open import forgiven
from butlers.sessions.injection_log import InjectionRecord, as_record, find_of_session
from butlers.sessions.injections import InjectionEvent
from butlers.sessions.log import excerpt
from butlers.sessions.transcripts import Speaker, Transcript, instant_of, utc_instant
from butlers.sessions.verdicts import Exchange, Verdict, judge

_SQL = load(__file__)
_judge = Touched(_SQL["judge"])
_find_marks = Rows(_SQL["find_marks"])
_SECONDS = 30.0
_PROMPT_SECONDS = 60.0
"""How far the time of a prompt in a transcript may lie from that of its injection."""
_BY_MARK = {"helpful": Verdict.USED, "harmful": Verdict.HARMFUL}
Verdicts = dict[str, Verdict]


async def judge_session(ctx: OperationContext, session: str, transcript: Transcript) -> None:
    """Judge each injection of a session as far as its transcript goes; a failure is logged.

    What was judged before stays, unless a later part of the session says more.
    """
    work = partial(_judge_session, ctx, session, transcript)
    await forgiven("verdicts on a session", work, otherwise=None, seconds=_SECONDS)


async def _judge_session(ctx: OperationContext, session: str, transcript: Transcript) -> None:
    async with ctx.memory.transaction(ctx.lineage) as tx:
        rows = await find_of_session(tx, session_id=session)
        records = [record for record in map(as_record, rows) if record.lines]
        if not records:
            return
        ids = [line.id for record in records for line in record.lines]
        found = await _find_marks(tx, ids=ids, since=records[0].at)
    marks = {row["rule_id"]: _BY_MARK[row["outcome"]] for row in found}
    judged = await asyncio.to_thread(_judge_all, records, transcript, marks)
    async with ctx.memory.transaction(ctx.lineage) as tx:
        for id, verdicts in judged.items():
            await _judge(tx, id=id, verdicts=verdicts)


def _judge_all(
    records: Sequence[InjectionRecord], transcript: Transcript, marks: Mapping[UUID, Verdict]
) -> dict[UUID, Verdicts]:
    """Return the verdicts on each injection that differ from those recorded."""
    turns = _Turns(transcript)
    judged = {one.id: _verdicts(one, turns.exchange_of(one), marks) for one in records}
    return {one.id: judged[one.id] for one in records if judged[one.id] != one.verdicts}


def _verdicts(
    record: InjectionRecord, exchange: Exchange | None, marks: Mapping[UUID, Verdict]
) -> Verdicts:
    """Return the verdicts on an injection: those recorded, unless there are worse ones now."""
    verdicts = dict(record.verdicts)
    for line in record.lines:
        verdict, id = marks.get(line.id), str(line.id)
        if verdict is None and exchange is not None:
            verdict = judge(line.text, id, exchange)
        known = [one for one in (verdicts.get(id), verdict) if one]
        if known:
            verdicts[id] = max(known, key=list(Verdict).index)
    return verdicts


class _Turns:
    """The user's turns of a transcript, to find that of an injection."""

    def __init__(self, transcript: Transcript) -> None:
        self._said = transcript.said
        # Commands and other calls of tools, where the transcript has them.
        self._calls = transcript.calls
        self._starts = [n for n, one in enumerate(self._said) if one.speaker is Speaker.USER]
        self._excerpts = [excerpt(self._said[n].text) for n in self._starts]
        self._times = [utc_instant(instant_of(self._said[n].at)) for n in self._starts]

    def exchange_of(self, record: InjectionRecord) -> Exchange | None:
        """Return what followed an injection; None if the transcript does not have it."""
        if not self._starts:
            return None
        if record.event is InjectionEvent.START:
            return self._exchange(0, len(self._starts))
        turn = self._turn_of(record)
        return None if turn is None else self._exchange(turn, turn + 1)

    def _turn_of(self, record: InjectionRecord) -> int | None:
        distances = [abs((at - record.at).total_seconds()) if at else 0.0 for at in self._times]
        turns = range(len(self._starts))
        if record.event is InjectionEvent.TOOL:
            before = [n for n in turns if (at := self._times[n]) and at <= record.at]
            return before[-1] if before else None
        same = [n for n in turns if record.asked and self._excerpts[n] == record.asked]
        if same:
            return min(same, key=lambda n: (distances[n], -n))
        near = [n for n in turns if self._times[n] and distances[n] <= _PROMPT_SECONDS]
        return min(near, key=distances.__getitem__, default=None)

    def _exchange(self, first: int, after: int) -> Exchange | None:
        """Return the exchange from one turn of the user up to another; None without an answer."""
        start = self._starts[first]
        end = self._starts[after] if after < len(self._starts) else len(self._said)
        said = self._said[start:end]
        answers = [one.text for one in said if one.speaker is Speaker.AGENT]
        last = self._said[end].at if end < len(self._said) else ""
        calls = [c.summary for c in self._calls if c.at >= said[0].at and (not last or c.at < last)]
        if not answers and not calls:
            return None
        prompts = [one.text for one in said if one.speaker is Speaker.USER]
        later = [self._said[n].text for n in self._starts[first + 1 : first + 3]]
        return Exchange("\n".join(prompts), "\n".join(answers), calls, later)
