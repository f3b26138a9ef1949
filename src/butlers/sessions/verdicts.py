"""Judge whether an agent used a memory that it was given, without a language model.

A line was used if the answer, or a command after it, has what only the line could have given: a run
of its words, a number or identifier, or several of its rarer words, none of them in the prompt. It
did harm if the user's next turns correct what it says. All of it is linear in the texts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum

from butlers.kernel.text import folded, prepared, stop_words
from butlers.sessions import cues
from butlers.sessions.echo import memories_in

_RUN = 4
_NEXT_TURNS = 2
_STEM = 6
_FEW, _LEAST_SHARE = 3, 0.25
"""Of so few rarer words one is enough; of more, two, and so many of them."""
_TELLING = 3
"""A number or name of so many characters says enough by itself."""
_READ = 40_000
_WORD = re.compile(r"[^\W_]+(?:[-_.][^\W_]+)*")
_PARTS = re.compile(r"[^\W_]+")
_ENDING = re.compile(r"(?<=\w{4})(?:ing|ed|es|en|er|s|e)$")
_CODE = re.compile(r"`([^`\n]{3,200})`")
# For searching, the names of days mean little; here they may be what a line says.
_DAY = re.compile(
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwoch"
)
_SENTENCE = re.compile(r"[^.!?\n]+")
_OUTDATED = re.compile(
    r"\b(?:outdated|out of date|obsolete|no longer|not any ?more|veraltet|nicht mehr|"
    r"überholt|ya no|obsoleto|n['’]est plus|périmé|больше не|устарел\w*)\b",
    re.IGNORECASE,
)
# What a line says is not so.
_DENIED = re.compile(
    r"\b(?:not|never|instead of|rather than|over|nicht|statt|nie|pas|au lieu de|non|не|вместо)\b"
    r"(?:\s+(?:on|with|in|by|the|a|an|mit|auf|in))*\s+[\w.-]+",
    re.IGNORECASE,
)


class Verdict(StrEnum):
    """What became of a memory that a session was given, the worst last."""

    IGNORED = "ignored"
    USED = "used"
    HARMFUL = "harmful"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A prompt, the answers and commands after it, and the user's turns after those."""

    prompt: str
    answer: str
    actions: Sequence[str] = ()
    next_turns: Sequence[str] = ()


def judge(line: str, memory_id: str, exchange: Exchange) -> Verdict:
    """Judge one line that was given with a prompt."""
    content = _content(line)
    answer = "\n".join([exchange.answer[:_READ], *exchange.actions])[: 2 * _READ]
    used = memory_id[:8] in answer or _is_used(content, exchange.prompt[:_READ], answer)
    turns = exchange.next_turns[:_NEXT_TURNS]
    if used and any(_is_corrected(content, turn) for turn in turns):
        return Verdict.HARMFUL
    return Verdict.USED if used else Verdict.IGNORED


def keys(text: str) -> set[str]:
    """Return the words of a text that mean something, shortened so that endings do not matter."""
    return {_key(word) for word in _words(text)}


def _content(line: str) -> str:
    """Return what a line of a context says, without its subject and figures."""
    return " ".join(content for _, content in memories_in(line)) or line


def _is_used(content: str, prompt: str, answer: str) -> bool:
    asserted, known = _DENIED.sub(" ", content), keys(prompt)
    if any(code in answer and code not in prompt for code in _CODE.findall(asserted)):
        return True
    if set(_runs(content)) & set(_runs(answer)) - set(_runs(prompt)):
        return True
    own = {_key(word): word for word in _words(asserted) if _key(word) not in known}
    # Word by word only within a line: a long answer has most words somewhere.
    return any(_has_enough(own, own.keys() & keys(line)) for line in answer.splitlines())


def _has_enough(own: Mapping[str, str], hits: Set[str]) -> bool:
    """Whether these words are enough of those that only the memory has."""
    names = [word for word in own.values() if _is_identifier(word)]
    if any(own[key] in names and len(key) >= _TELLING for key in hits):
        return True
    # Where the memory names a number or the like, that is what it says.
    is_plain = len(own) <= _FEW and not names
    least = 1 if is_plain else min(len(own), max(2, _LEAST_SHARE * len(own)))
    return len(hits) >= least > 0


def _is_corrected(content: str, turn: str) -> bool:
    """Whether a turn of the user contradicts, and is about what the line says."""
    sentences = [sentence.strip() for sentence in _SENTENCE.findall(turn[:_READ])]
    contradicts = cues.turns_back(turn) or any(map(cues.disagrees, sentences))
    if not contradicts and not _OUTDATED.search(turn[:_READ]):
        return False
    return bool(keys(turn) & keys(content))


def _words(text: str) -> Iterator[str]:
    stops = stop_words()
    for match in _WORD.finditer(prepared(folded(text))):
        for word in {match[0], *_PARTS.findall(match[0])}:
            if (word not in stops or _DAY.fullmatch(word)) and (len(word) > 1 or word.isdecimal()):
                yield word


def _key(word: str) -> str:
    return word if _is_identifier(word) else _ENDING.sub("", word)[:_STEM]


def _is_identifier(word: str) -> bool:
    """Whether a word is a number, a name of a file, an option or the like."""
    return any(map(str.isdecimal, word)) and len(word) > 1 or any(sign in word for sign in "-_.")


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    words = _PARTS.findall(folded(text))
    return (tuple(words[start : start + _RUN]) for start in range(len(words) - _RUN + 1))
