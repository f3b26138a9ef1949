"""Find the sentences of a session that settle something, in its user's words and its agent's."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from butlers.kernel.secrets import masked
from butlers.kernel.text import normalise_whitespace
from butlers.sessions import spoken
from butlers.sessions.gist import is_filler, matches, pack, sentences_of, shorten
from butlers.sessions.pasted import Doubt
from butlers.sessions.transcripts import Utterance

Exchange = tuple[Utterance, Sequence[Utterance]]
DECISION = 900
"""Characters of a decision."""
_WHOLE_TURN, _PROPOSAL, _READ, _SHORTEST, _FEW_WORDS = 900, 500, 6_000, 25, 100
_SHORT_FINAL, _STATEMENT = 300, 2_000
"""A shorter statement is told with what was said before it."""
_OPTION = re.compile(r"\b(?:(?:option|variante|plan|number) )?([A-D]|[1-9])\b(?![\w.:])")
_MOST_APART = 2
"""Exchanges between two sentences of one decision."""
_MOST = 6
_NEARLY_ALL = 0.6
_WORD = re.compile(r"\w{4,}|\d+")
# What a first request must say to settle something: the rest is what is asked for.
_STANDING = re.compile(
    r"\b(?:from now on|decided|settled|amend\w*|going forward|we (?:use|always|never|only)|ab jetzt"
    r"|ab sofort|entschieden|beschlossen|wir (?:nutzen|verwenden|nehmen))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Settled:
    """What one exchange settles: the sentences, and whether they sum up what came before."""

    number: int
    at: str
    sentences: tuple[str, ...]
    sums_up: bool = False


def decisions(exchanges: Sequence[Exchange]) -> list[tuple[str, str]]:
    """Return what a part of a session settles, each with its instant; often nothing.

    A statement that sums up comes first, then what was said before and is not in it.
    """
    found: list[tuple[str, str]] = []
    group: list[_Settled] = []
    for one in _settled(exchanges):
        if group and one.number - group[-1].number > _MOST_APART + 1:
            found += _texts(group)
            group = []
        group.append(one)
    found += _texts(group)
    return [one for one in found if len(one[0]) >= _SHORTEST][-_MOST:]


def _texts(group: Sequence[_Settled]) -> list[tuple[str, str]]:
    final = next((one for one in reversed(group) if one.sums_up), None)
    first = list(final.sentences) if final else []
    known = _words(" ".join(first))
    rest = [
        sentence
        for one in group
        if one is not final
        for sentence in one.sentences
        if not _is_covered(sentence, known)
    ]
    texts = [one for one in pack(dict.fromkeys(rest), DECISION) if not first or len(one) >= 60]
    if sum(map(len, first)) < _SHORT_FINAL:
        texts = pack([*first, *dict.fromkeys(rest)], DECISION)
        first = []
    return [(text, group[-1].at) for text in [*first, *texts]] if group else []


def _settled(exchanges: Sequence[Exchange]) -> Iterator[_Settled]:
    before = ""
    for number, (asked, answers) in enumerate(exchanges):
        sentences = _of_user(asked.text, before, opens=number == 0)
        replies = bool(before) and before.rstrip().endswith("?") and len(asked.text) <= _FEW_WORDS
        if sentences:
            yield _Settled(number, asked.at, tuple(sentences))
        before = answers[-1].text if answers else ""
        is_last = number == len(exchanges) - 1
        final = _final(before)
        if final:
            yield _Settled(number, answers[-1].at, tuple(final), sums_up=True)
        elif sentences or replies:
            restated = _restated(answers[0].text) if answers else []
            if restated and (is_last or replies):
                yield _Settled(number, answers[0].at, tuple(restated), sums_up=is_last)


def _of_user(turn: str, before: str, *, opens: bool) -> list[str]:
    """Return the sentences of a turn that settle something, after what it agrees to."""
    own = spoken.doubted_sentences(spoken.without_printed(masked(turn[:_READ]).text))
    sure = [one for one, doubt in own if doubt is not Doubt.STRONG]
    sentences = [normalise_whitespace(spoken.unlisted(one)) for one in sure]
    telling = [one for one in sentences if not one.endswith("?") and "lines pasted]" not in one]
    if not telling or opens:
        return [one for one in telling if _STANDING.search(one)]
    agreed = _agreed(before, turn) if matches("accepting", telling[0]) else []
    # Only where the agent proposed or asked something do weaker words settle it.
    cue = "deciding" if _invites(before) else "ruling"
    settling = [one for one in telling if matches(cue, one) or _STANDING.search(one)]
    is_short = sum(map(len, telling)) <= _WHOLE_TURN
    kept = telling if settling and is_short and cue == "deciding" else settling
    return agreed + [shorten(one, DECISION // 2) for one in kept if len(one) >= _SHORTEST]


def _invites(answer: str) -> bool:
    """Whether an answer ends with a question or a proposal."""
    ending = sentences_of(answer[-1_500:])[-5:]
    return any(one.endswith("?") or matches("proposing", one) for one in ending)


def _agreed(answer: str, turn: str) -> list[str]:
    """Return what an agent proposed or stated at the end of its answer: the option named, if any.

    An answer that sums up by itself was taken already.
    """
    if _final(answer):
        return []
    sentences = [one for one in sentences_of(masked(answer[-_READ:]).text) if len(one) >= _SHORTEST]
    named = _OPTION.search(turn)
    if named:
        option = re.compile(rf"^(?:option|variante|plan)? ?{named[1]}\b", re.IGNORECASE)
        start = next((n for n, one in enumerate(sentences) if option.match(one)), None)
        if start is not None:
            return pack(sentences[start : start + 3], _PROPOSAL)[:1]
    proposing = [one for one in sentences[-12:] if matches("proposing", one)]
    ruling = [one for one in sentences if matches("ruling", one) and not is_filler(one)]
    ruling = ruling if len(answer) <= _STATEMENT else []  # a long report states much else
    return pack(proposing[-3:] or ruling[-4:], _PROPOSAL)[-1:]


def _final(answer: str) -> list[str]:
    """Return the sentences of an answer that sums up what was settled; none of another."""
    sentences = sentences_of(masked(answer[:_READ]).text)
    for number, sentence in enumerate(sentences[:4]):
        plain = _without_assent(sentence)
        if matches("final", plain) and len(plain) >= _SHORTEST:
            return _whole([plain, *sentences[number + 1 :]])
    return []


def _restated(answer: str) -> list[str]:
    """Return how an agent repeats what its user wants, "Understood: …"."""
    sentences = sentences_of(masked(answer[:_READ]).text)
    opening = " ".join(sentences[:2])
    rest = _without_assent(opening)
    return _whole([rest, *sentences[2:4]]) if rest != opening else []


def _without_assent(sentence: str) -> str:
    assent = matches("restating", sentence)
    return sentence[assent.end() :] if assent else sentence


def _whole(sentences: Sequence[str]) -> list[str]:
    """Return the sentences that say something, as long as a decision may be."""
    telling = [one for one in sentences if not is_filler(one) and not one.endswith("?")]
    return pack(telling, DECISION)[:1]


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _is_covered(sentence: str, known: set[str]) -> bool:
    words = _words(sentence)
    return len(words & known) >= max(1, _NEARLY_ALL * len(words)) if known else False
