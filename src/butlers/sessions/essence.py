"""Extract the essence of a session without a language model, and store it part by part.

Every turn of a user is in it, shortened where it must be. What they stated comes first and whole,
for that is what people want kept, and the first words of an episode are found best. A long
session has several parts, each short enough to be one episode. Each part is stored once: a
session that is delivered again, or resumed, adds only what is new.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

import structlog

from butlers.kernel.secrets import masked
from butlers.kernel.text import normalise_whitespace
from butlers.memory.flows.session_parts import NewPart, Part, last_part, session_key, store_part
from butlers.memory.model import NewEpisode
from butlers.memory.operations import OperationContext
from butlers.sessions import cues
from butlers.sessions.echo import RECALLED, Echo
from butlers.sessions.spoken import (
    SpokenStatement,
    candidates,
    own_sentences,
    statements,
    unlisted,
    without_pasted,
)
from butlers.sessions.transcripts import Speaker, Transcript, Utterance, instant_of, own_words

MAX_CHARACTERS = 8_000
_REQUEST, _WHOLE, _STATED, _OUTCOME, _OUTCOME_BETWEEN = 2_000, 2_000, 3_000, 2_800, 800
_LONGEST, _SHORTEST, _IN_ALL = 500, 80, 48_000
"""What is shown of a turn that states nothing: the less, the more of them there are."""

_HEAD, _TAIL = 40_000, 10_000
"""What is read of a turn: nobody types more, and who pastes more speaks before or after it."""

_ROOM = MAX_CHARACTERS - _OUTCOME - 100
_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Essence:
    """A text to store, what was stated in it, when, and the last instant it covers."""

    text: str
    secrets_masked: int
    asked_at: str = ""
    through: str = ""
    statements: tuple[SpokenStatement, ...] = ()


@dataclass(slots=True)
class _Words:
    """What is said in a turn: what it states, what else is kept whole, and the rest."""

    stated: list[str]
    whole: list[str]
    rest: str


@dataclass(frozen=True, slots=True)
class _UserTurn:
    """What a user said in one turn, and what the agent said last before the next."""

    at: str
    words: _Words
    statements: tuple[SpokenStatement, ...]
    secrets: int
    answer: str
    through: str

    def length(self, limit: int) -> int:
        """How long it is at most, when of what it does not state no more than that is shown."""
        whole = sum(len(line) + 1 for line in (*self.words.stated, *self.words.whole))
        return whole + min(limit, len(self.words.rest)) + len("Request: \n")


def of_exchange(prompt: str, answer: str, recalled: Iterable[str]) -> Essence | None:
    """The essence of one question and its answer; None if one is missing."""
    asked, told = own_words(prompt), own_words(answer)
    if not asked or not told:
        return None
    said = [Utterance(Speaker.USER, asked), Utterance(Speaker.AGENT, told)]
    return of_transcript(Transcript(said, list(recalled)))[0]


def of_transcript(transcript: Transcript) -> list[Essence]:
    """The essence of a session, in as many parts as it needs; none where nobody asked."""
    echo = Echo(transcript.recalled)
    turns = [_turn(asked, answers, echo) for asked, answers in _exchanges(transcript.said)]
    limit = max(_SHORTEST, min(_LONGEST, _IN_ALL // max(1, len(turns))))
    parts = list(_packed(turns, limit))
    found = [
        _essence(part, limit, echo, opens=part is parts[0], ends=part is parts[-1])
        for part in parts
    ]
    return [one for one in found if one.text.strip()]


def _exchanges(said: Sequence[Utterance]) -> Iterator[tuple[Utterance, Sequence[Utterance]]]:
    """Each turn of the user with what the agent said before the next."""
    starts = [place for place, one in enumerate(said) if one.speaker is Speaker.USER]
    for start, end in pairwise([*starts, len(said)]):
        yield said[start], said[start + 1 : end]


def _turn(said: Utterance, answers: Sequence[Utterance], echo: Echo) -> _UserTurn:
    # Masked before it is cut or taken apart, for half a secret is not recognised.
    found = masked(_read(said.text))
    shown = normalise_whitespace(without_pasted(found.text))
    own = [normalise_whitespace(one) for one in own_sentences(found.text)]
    stated = tuple(one for one in statements(own) if not echo.covers(one.text))
    own = list(map(unlisted, own))
    words = _set_apart(shown, own, {one.text for one in stated})
    # Nothing is drawn from an episode that the episode does not say.
    told = "\n".join(words.stated)
    stated = tuple(one for one in stated if one.text in told)
    last = answers[-1] if answers else said
    answer = last.text if answers else ""
    return _UserTurn(said.at, words, stated, found.count, answer, last.at)


def _set_apart(shown: str, own: Sequence[str], stated: set[str]) -> _Words:
    """The words of a turn by what they are worth."""
    if len(shown) <= _WHOLE and cues.turns_back(shown):
        whole = [f"Correction: {shown}"]
        return _Words(whole, [], "") if stated else _Words([], whole, "")
    words, used = _Words([], [], shown), 0
    for one in own:
        sure = one in stated
        line = f"Stated: {one}" if sure else f"Said: {one}"
        if used + len(line) < (_STATED if sure else _WHOLE) and (sure or cues.may_state(one)):
            (words.stated if sure else words.whole).append(line)
            words.rest = words.rest.replace(one, "", 1)
            used += len(line) + 1
    words.rest = normalise_whitespace(words.rest)
    if used and not any(map(str.isalnum, words.rest)):
        words.rest = ""
    return words


def _packed(turns: Sequence[_UserTurn], limit: int) -> Iterator[list[_UserTurn]]:
    """The turns in parts, each as long as an episode may be."""
    part: list[_UserTurn] = []
    free = _ROOM - _REQUEST
    for turn in turns:
        length = turn.length(limit)
        if part and length > free:
            yield part
            part, free = [], _ROOM
        part.append(turn)
        free -= length
    if part:
        yield part


def _essence(
    part: Sequence[_UserTurn], limit: int, echo: Echo, *, opens: bool, ends: bool
) -> Essence:
    words = [turn.words for turn in part]
    lines = [line for one in words for line in one.stated]
    lines += [line for one in words for line in one.whole]
    first, *later = [one.rest for one in words if one.rest] or [""]
    lines += [f"Request: {_ends(first, _REQUEST if opens else limit)}"] if first else []
    lines += [f"Then: {_ends(rest, limit)}" for rest in later]
    room = MAX_CHARACTERS - sum(len(line) + 1 for line in lines) - len("Outcome: ")
    outcome, secrets = _outcome(part, echo, min(room, _OUTCOME if ends else _OUTCOME_BETWEEN))
    lines += [f"Outcome: {outcome}"] if outcome else []
    return Essence(
        "\n".join(lines),
        sum(turn.secrets for turn in part) + secrets,
        part[-1].at,
        part[-1].through,
        tuple(one for turn in part for one in turn.statements),
    )


def _outcome(part: Sequence[_UserTurn], echo: Echo, limit: int) -> tuple[str, int]:
    """The last thing the agent said, without what it only repeated from memory."""
    answers = [turn.answer for turn in part if turn.answer]
    if not answers:
        return "", 0
    told = echo.without(answers[-1][:_HEAD])
    # Only as far as it is shown, and the shapes of secrets need to see.
    found = masked("answered from memory" if told == RECALLED else told[: limit * 8])
    return _cut(found.text.strip(), limit), found.count


def _read(text: str) -> str:
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n{text[-_TAIL:]}"


def _ends(text: str, limit: int) -> str:
    """A text that is too long by its beginning and its end: what matters is said last, or first."""
    if len(text) <= limit:
        return text
    tail = text[-(limit // 3) :].partition(" ")[2] or text[-(limit // 3) :]
    return f"{_cut(text, limit - len(tail) - 1)} {tail}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + _ELLIPSIS


log = structlog.get_logger(__name__)


async def store_session(
    ctx: OperationContext, session: str, said: Transcript, metadata: Mapping[str, Any]
) -> UUID | None:
    """Store what is not stored of a session; its last new episode, None where nothing is new."""
    newest: UUID | None = None
    while True:
        after = await last_part(ctx.memory, session, ctx.lineage)
        rest = said.after(after.through if after else "")
        for found in await asyncio.to_thread(of_transcript, rest):
            after = await store_essence(ctx, session, found, after, metadata)
            if after is None:
                # Somebody else delivers it too and was quicker: what is left is seen anew.
                break
            newest = after.episode_id
        else:
            return newest


async def store_essence(
    ctx: OperationContext,
    session: str,
    found: Essence,
    after: Part | None,
    metadata: Mapping[str, Any],
) -> Part | None:
    """Store a part of a session after another; None where the session went on otherwise."""
    memory, scope = ctx.memory, await ctx.store_scope(ctx.memory.butler)
    # Several speak in it, so that it has no author.
    episode = NewEpisode(
        found.text,
        scope,
        _as_uuid(session),
        metadata={**metadata, "session": session, "through": found.through},
        idempotency_key=f"{session_key(session)}:{after.through}"
        if after
        else session_key(session),
        said_at=_instant(found.asked_at),
    )
    stated = found.statements if memory.settings.statements.enabled else ()
    told = candidates(stated, scope, session, metadata)
    new = NewPart(session, after, found.through, episode, told)
    stored = await store_part(memory, new, ctx.lineage)
    if stored is not None:
        log.info(
            "session remembered",
            butler=memory.butler,
            episode=str(stored.episode_id),
            secrets_masked=found.secrets_masked,
        )
    return stored


def _as_uuid(session: str) -> UUID | None:
    try:
        return UUID(session)
    except ValueError:
        return None


def _instant(at: str) -> datetime | None:
    """An instant as a transcript writes it; None where it writes none, or without its offset."""
    try:
        found = datetime.fromisoformat(instant_of(at))
        return found.astimezone(UTC) if found.tzinfo else None
    except (ValueError, OverflowError):
        return None
