"""The essence of a session, without a model: what was asked, corrected, and what came of it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from butlers.kernel.secrets import masked
from butlers.sessions.echo import RECALLED, Echo
from butlers.sessions.transcripts import Said, Speaker, Transcript, own_words

MAX_CHARACTERS = 8_000
_REQUEST, _LATER, _OUTCOME = 2_000, 500, 2_800
_MOST_LATER = 6
_ELLIPSIS = "…"

_CORRECTION = re.compile(
    r"(?i)(?:ah,? |oh,? |hm+,? |please |but |sorry,? )?"
    r"(?:no\b(?! problem| worries)|nope\b|not (?:that|what|quite|like)\b|actually\b|don['’]t\b"
    r"|do not\b|never\b|stop\b|wrong\b|instead\b|rather\b|undo\b|revert\b|wait\b"
    r"|that['’]?s (?:not|wrong|incorrect)|that is (?:not|wrong|incorrect)"
    r"|i (?:said|meant|asked|told)\b|you (?:forgot|missed|misunderstood|should(?:n['’]t| not)?)\b)"
)


@dataclass(frozen=True, slots=True)
class Essence:
    """A text to store, how many secrets were masked in it, and the last instant it covers."""

    text: str
    secrets_masked: int
    through: str = ""


def of_exchange(prompt: str, answer: str, recalled: Iterable[str]) -> Essence | None:
    """The essence of one question and its answer; None if one is missing."""
    said = [Said(Speaker.USER, own_words(prompt)), Said(Speaker.AGENT, own_words(answer))]
    return of_transcript(Transcript([one for one in said if one.text], list(recalled)))


def of_transcript(transcript: Transcript) -> Essence | None:
    """The essence of a session; None if nobody asked or nobody answered."""
    asked = [one for one in transcript.said if one.speaker is Speaker.USER]
    outcome = _outcome(transcript)
    if not asked or not outcome:
        return None
    lines, count = list[str](), 0
    for label, text, limit in _pieces(asked, outcome):
        shown, found = _fitted(text, limit)
        count += found
        lines.append(f"{label}: {shown}")
    return Essence("\n".join(lines)[:MAX_CHARACTERS], count, asked[-1].at)


def _pieces(asked: Sequence[Said], outcome: str) -> Iterator[tuple[str, str, int]]:
    yield "Request", asked[0].text, _REQUEST
    for one in _worth_keeping(asked[1:]):
        yield "Correction" if _corrects(one) else "Then", one.text, _LATER
    yield "Outcome", outcome, _OUTCOME


def _worth_keeping(later: Sequence[Said]) -> list[Said]:
    """Corrections before other requests, the latest before earlier ones, in their order."""
    ranked = sorted(range(len(later)), key=lambda place: (not _corrects(later[place]), -place))
    return [later[place] for place in sorted(ranked[:_MOST_LATER])]


def _corrects(one: Said) -> bool:
    return _CORRECTION.match(one.text) is not None


def _outcome(transcript: Transcript) -> str:
    """The last thing the agent said, without what it only repeated from memory."""
    answers = [one.text for one in transcript.said if one.speaker is Speaker.AGENT]
    if not answers:
        return ""
    told = Echo(transcript.recalled).without(answers[-1])
    return "answered from memory" if told == RECALLED else told


def _fitted(text: str, limit: int) -> tuple[str, int]:
    """The beginning of a text without secrets, and how many there were."""
    # Masked before it is cut, for half a secret is not recognised; yet only as far as needed.
    found = masked(text[: limit * 8])
    shown = found.text.strip()
    if len(shown) > limit:
        shown = shown[: limit - 1].rstrip() + _ELLIPSIS
    return shown, found.count
