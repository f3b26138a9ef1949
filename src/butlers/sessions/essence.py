"""Extract the essence of a session without a language model, and store it part by part.

Every turn of the user is in it, shortened if necessary. What they stated comes first and whole:
people want that kept, and the first words of an episode are found best. A long session has several
parts, one episode each. A session that is delivered again, or resumed, adds only what is new.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import structlog

from butlers.kernel.secrets import masked
from butlers.kernel.text import normalise_whitespace
from butlers.memory.flows.provenance import find_repeated
from butlers.memory.flows.session_parts import NewPart, Part, last_part, session_key, store_part
from butlers.memory.model import NewEpisode, Origin
from butlers.memory.operations import OperationContext
from butlers.memory.policy import suspicion
from butlers.sessions import cues, spoken, transcripts
from butlers.sessions.echo import RECALLED, Echo
from butlers.sessions.pasted import Doubt, named
from butlers.sessions.piece_storage import copied_through, id_of, piece_episodes
from butlers.sessions.pieces import NewPiece, pieces_of
from butlers.sessions.privacy import public_text
from butlers.sessions.spoken import SpokenStatement
from butlers.sessions.transcripts import Speaker, Transcript, Utterance, own_words

MAX_CHARACTERS = 8_000
_REQUEST, _WHOLE, _STATED, _OUTCOME, _OUTCOME_BETWEEN = 2_000, 2_000, 3_000, 2_800, 800
_LONGEST, _SHORTEST, _IN_ALL = 500, 80, 48_000
"""Characters shown of a turn that states nothing: the more turns, the fewer."""

_HEAD, _TAIL = 40_000, 10_000
"""Characters read of a turn: the beginning and the end, around what was pasted."""

_ROOM = MAX_CHARACTERS - _OUTCOME - 100
_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Essence:
    """A part of a session to store: its text, its statements, and the last instant it covers."""

    text: str
    secrets_masked: int
    asked_at: str = ""
    through: str = ""
    statements: tuple[SpokenStatement, ...] = ()
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class _UserTurn:
    """What the user said in one turn, and the agent's last answer to it."""

    at: str
    stated: list[str]
    whole: list[str]
    rest: str
    statements: tuple[SpokenStatement, ...]
    secrets: int
    answer: str
    through: str

    def length(self, limit: int) -> int:
        """Return its greatest length when at most `limit` characters of the rest are shown."""
        whole = sum(len(line) + 1 for line in (*self.stated, *self.whole))
        return whole + min(limit, len(self.rest)) + len("Request: \n")


def of_exchange(prompt: str, answer: str, recalled: Iterable[str]) -> Essence | None:
    """Return the essence of one question and its answer; None if one is missing or private."""
    if public_text(prompt) != prompt:
        return None  # then its answer is private too
    said = [
        Utterance(Speaker.USER, own_words(prompt)),
        Utterance(Speaker.AGENT, own_words(answer)),
    ]
    if not all(utterance.text for utterance in said):
        return None
    return of_transcript(Transcript(said, list(recalled)))[0]


def of_transcript(transcript: Transcript) -> list[Essence]:
    """Return the essence of a session in parts; none if the user said nothing."""
    echo = Echo(transcript.recalled)
    turns = [_turn(asked, answers, echo) for asked, answers in transcript.exchanges()]
    limit = max(_SHORTEST, min(_LONGEST, _IN_ALL // max(1, len(turns))))
    parts = list(_packed(turns, limit))
    essences = [
        _essence(part, limit, echo, opens=part is parts[0], ends=part is parts[-1])
        for part in parts
    ]
    return [essence for essence in essences if essence.text.strip()]


def _turn(said: Utterance, answers: Sequence[Utterance], echo: Echo) -> _UserTurn:
    # Masked before it is cut: half a secret is not recognised.
    text = said.text
    clean = masked(text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n{text[-_TAIL:]}")
    shown = normalise_whitespace(named(spoken.without_pasted(clean.text)))
    own, stated = _read(clean.text, echo)
    words = _set_apart(shown, list(map(spoken.unlisted, own)), {one.text for one in stated})
    # Nothing is drawn from an episode that the episode does not say.
    lines = "\n".join(words[0])
    drawn = tuple(one for one in stated if one.text in lines)
    last = answers[-1] if answers else said
    return _UserTurn(said.at, *words, drawn, clean.count, last.text if answers else "", last.at)


def _read(text: str, echo: Echo) -> tuple[list[str], list[SpokenStatement]]:
    """Return a user's sentences, and what they state; all is in doubt beside an attack."""
    read = spoken.doubted_sentences(text)
    own = [normalise_whitespace(one) for one, _ in read]
    attacks = suspicion.doubt(text)
    known = {
        spoken.unlisted(one): Doubt.STRONG if attacks else doubt
        for one, (_, doubt) in zip(own, read, strict=True)
    }
    stated = [one for one in spoken.statements(own) if not echo.covers(one.text)]
    return own, [replace(one, doubt=known.get(one.text, Doubt.STRONG)) for one in stated]


def _set_apart(
    shown: str, own: Sequence[str], stated: set[str]
) -> tuple[list[str], list[str], str]:
    """Divide the words of a turn into statements, other lines kept whole, and the rest."""
    if len(shown) <= _WHOLE and cues.turns_back(shown):
        lines = [f"Correction: {shown}"]
        return (lines, [], "") if stated else ([], lines, "")
    sure_lines, whole, rest, used = list[str](), list[str](), shown, 0
    for sentence in own:
        sure = sentence in stated
        line = f"Stated: {sentence}" if sure else f"Said: {sentence}"
        limit = _STATED if sure else _WHOLE
        if used + len(line) < limit and (sure or cues.may_state(sentence)):
            (sure_lines if sure else whole).append(line)
            rest = rest.replace(sentence, "", 1)
            used += len(line) + 1
    rest = normalise_whitespace(rest)
    return sure_lines, whole, rest if not used or any(map(str.isalnum, rest)) else ""


def _packed(turns: Sequence[_UserTurn], limit: int) -> Iterator[list[_UserTurn]]:
    """Divide the turns into parts, each short enough for one episode."""
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
    lines = [line for turn in part for line in turn.stated]
    lines += [line for turn in part for line in turn.whole]
    first, *later = [turn.rest for turn in part if turn.rest] or [""]
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
        tuple(statement for turn in part for statement in turn.statements),
        outcome,
    )


def _outcome(part: Sequence[_UserTurn], echo: Echo, limit: int) -> tuple[str, int]:
    """Return the agent's last answer without what it repeated from memory, and masked secrets."""
    answers = [turn.answer for turn in part if turn.answer]
    if not answers:
        return "", 0
    answer = echo.without(answers[-1][:_HEAD])
    # More than is shown: a secret that is cut off is not recognised.
    clean = masked("answered from memory" if answer == RECALLED else answer[: limit * 8])
    return _cut(clean.text.strip(), limit), clean.count


def _ends(text: str, limit: int) -> str:
    """Shorten a text to its beginning and its end."""
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
    """Store the new parts of a session; return the last new episode, None if nothing is new."""
    newest: UUID | None = None
    while True:
        after = await last_part(ctx.memory, session, ctx.lineage)
        copied = "" if after else await copied_through(ctx, session, said)
        rest = said.after(after.through if after else copied)
        for essence, pieces in await asyncio.to_thread(_with_pieces, rest):
            after = await store_essence(ctx, session, essence, after, metadata, pieces)
            if after is None:
                break  # another process stored a part first: look again at what is left
            newest = after.episode_id
        else:
            return newest


def _with_pieces(said: Transcript) -> list[tuple[Essence, list[NewPiece]]]:
    """Return the parts of a session, each with its pieces."""
    parts, before = of_transcript(said), ""
    found = []
    for essence in parts:
        through = "" if essence is parts[-1] else essence.through
        found.append((essence, pieces_of(said.between(before, through))))
        before = essence.through
    return found


async def store_essence(
    ctx: OperationContext,
    session: str,
    essence: Essence,
    after: Part | None,
    metadata: Mapping[str, Any],
    pieces: Sequence[NewPiece] = (),
) -> Part | None:
    """Store a part of a session after another; None if another part was stored there."""
    memory, scope = ctx.memory, await ctx.store_scope(ctx.memory.butler)
    session_id, key = id_of(session), session_key(session)
    outcome = essence.outcome
    for repeated in await find_repeated(memory, outcome, ctx.lineage):
        outcome = outcome.replace(repeated, RECALLED)
    # Several speak in it, so that it has no author.
    episode = NewEpisode(
        essence.text.removesuffix(essence.outcome) + outcome,
        scope,
        session_id,
        metadata={**metadata, "session": session, "through": essence.through},
        idempotency_key=f"{key}:{after.through}" if after else key,
        said_at=transcripts.utc_instant(transcripts.instant_of(essence.asked_at)),
        origin=Origin.USER,
    )
    stated = essence.statements if memory.settings.statements.enabled else ()
    sure, waiting = (
        spoken.candidates([one for one in stated if one.waits is waits], scope, session, metadata)
        for waits in (False, True)
    )
    rows = piece_episodes(pieces, scope, session, metadata)
    new = NewPart(session, after, essence.through, episode, sure, rows, waiting, outcome)
    stored = await store_part(memory, new, ctx.lineage)
    if stored is not None:
        log.info(
            "session remembered",
            butler=memory.butler,
            episode=str(stored.episode_id),
            secrets_masked=essence.secrets_masked,
        )
    return stored
