"""Refuse entries of a model's answer that the cited episodes do not say.

A model invents things, copies its instructions, keeps secrets, and obeys what it reads.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from butlers.errors import InvalidInput
from butlers.kernel.secrets import SECRET_NAME, masked
from butlers.kernel.text import folded, normalise_whitespace, prepared, stop_words
from butlers.memory.policy.consolidation import EpisodeToRead

_WORD = re.compile(r"[^\W_]+")
_DATE = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_UNSPACED = re.compile("[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_GRAMMAR = re.compile("[\u3041-\u309f的了是在和我他她你们不有也就都]")
_SECRET_WORD = re.compile(
    "passwor[dt]|kennwort|contrasena|mot de passe|senha|wachtwoord|парол|密码|密碼|パスワード"
    "|비밀번호"
)
# Words that address the reader of the episode.
_SPOKEN_TO_THE_READER = re.compile(
    r"(?:ignor\w*|disregard|override|vergiss|missachte|oublie[sz]?|olvida|dimentica|esquece)"
    r"\W+(?:\w+\W+){0,5}?(?:instru\w+|istruzioni|anweisung\w*|prompt\w*|rules|regeln|page)"
    r"|system prompt|new_facts|updated_facts|new_rules|confirmations\b|episode_content"
    r"|known_facts|known_rules|confirm all|</?episodes?\b"
)
# A rule says what to do, seldom in the words of the episode.
RULE_SHARE = 0.5
_SHORTEST_ECHO = 3
_SHARED = 0.7
_LEAST_PREFIX = 4
_LONGEST_AGO_DAYS = 366


class Refused(InvalidInput):
    """An entry is refused; the message never quotes it."""


@dataclass(frozen=True)
class Evidence:
    """The words of the episodes that an entry cites."""

    episodes: tuple[EpisodeToRead, ...]

    @cached_property
    def words(self) -> frozenset[str]:
        """Every word, without paragraphs that address the reader."""
        texts = [text for episode in self.episodes for text in _heard(episode)]
        return frozenset(word for text in texts for word in _spelt(text))

    @cached_property
    def _by_beginning(self) -> dict[str, list[str]]:
        known: dict[str, list[str]] = {}
        for word in self.words:
            known.setdefault(word[:_LEAST_PREFIX], []).append(word)
        return known

    def says(self, word: str) -> bool:
        """Whether they have a word, in any form."""
        near = self._by_beginning.get(word[:_LEAST_PREFIX], ())
        return self.says_exactly(word) or any(_same_stem(word, other) for other in near)

    def says_exactly(self, word: str) -> bool:
        """Whether they have a name or number; a genitive is the same name."""
        return bool({word, word + "s", word.removesuffix("s")} & self.words)

    def names(self, subject: str) -> bool:
        """Whether they name a subject; an empty subject needs no name."""
        words = [word for word in telling(subject) if len(word) > 1]
        if words or not subject:
            return all(map(self.says_exactly, words))
        return any(folded(subject) in text for episode in self.episodes for text in _heard(episode))

    def holds(self, text: str, share: float = 1.0) -> bool:
        """Whether they have a text's names and numbers, and a share of its other words."""
        named = names(plain := self._without_known_dates(text))
        words = [word for word in telling(plain) if len(word) > 1]
        exact = [word for word in words if word in named or any(map(str.isdigit, word))]
        others = [word for word in words if word not in exact]
        pairs = [word for word in others if _UNSPACED.search(word)]
        spaced = [self.says(word) for word in others if not _UNSPACED.search(word)]
        # Half of the pairs of a text without spaces suffice: they overlap the ends of words.
        known = [pair in self.words for pair in pairs if not _GRAMMAR.search(pair)]
        return (
            all(map(self.says_exactly, exact))
            and sum(spaced) >= share * len(spaced)
            and sum(known) * 2 >= len(known)
        )

    def _without_known_dates(self, text: str) -> str:
        """Return the text without dates near the episodes', which may stand for "yesterday"."""
        days = [episode.created_at.date() for episode in self.episodes]
        text = _DATE.sub(lambda match: "" if _is_near(match, days) else match[0], text)
        years = {day.year + step for day in days for step in (-1, 0, 1)}
        return _YEAR.sub(lambda match: "" if int(match[0]) in years else match[0], text)


def check_statement(
    evidence: Evidence, subject: str, predicate: str, content: str, instructions: str
) -> None:
    """Refuse a fact that is a secret, repeats the instructions, or is not in the evidence."""
    _check_secret(content, predicate, f"{subject} {predicate} {content}")
    _check_echo(content, instructions)
    if not _names(evidence, subject):
        raise Refused("subject: is not in the episodes that it cites")
    _check_words(evidence, content)


def check_rule(evidence: Evidence, content: str, instructions: str) -> None:
    """Refuse a rule that is a secret, repeats the instructions, or is not in the evidence."""
    _check_secret(content, "", content)
    _check_echo(content, instructions)
    _check_words(evidence, content, RULE_SHARE)


def states(evidence: Evidence, content: str, subject: str, share: float) -> bool:
    """Whether the evidence would let a statement pass whose words it has to this share."""
    return _names(evidence, subject) and evidence.holds(content, share)


def supports(evidence: Evidence, content: str, subject: str = "") -> bool:
    """Whether the evidence repeats something of what is known."""
    words = set(telling(content)) - set(_spelt(subject))
    return evidence.names(subject) and any(map(evidence.says, words))


def _names(evidence: Evidence, subject: str) -> bool:
    return folded(subject) == "user" or evidence.names(subject)


def _check_words(evidence: Evidence, content: str, share: float = 1.0) -> None:
    if not evidence.holds(content, share):
        raise Refused("content: says what is not in the episodes that it cites")


def _check_echo(content: str, instructions: str) -> None:
    line = normalise_whitespace(folded(content)).strip(" .")
    if len(line.split()) >= _SHORTEST_ECHO and line in normalise_whitespace(folded(instructions)):
        raise Refused("content: repeats the instructions")


def _check_secret(content: str, name: str, whole: str) -> None:
    seen = masked(content).count or masked(whole).count or SECRET_NAME.search(name)
    named = _SECRET_WORD.search(folded(whole)) and any(map(str.isdigit, content))
    if seen or named or _SECRET_WORD.search(folded(name)):
        raise Refused("content: looks like a secret, which is not stored")


def _heard(episode: EpisodeToRead) -> Iterator[str]:
    """Yield the author and the paragraphs of an episode, folded."""
    if episode.author:
        yield folded(episode.author)
    yield from map(folded, paragraphs(episode))


def paragraphs(episode: EpisodeToRead) -> Iterator[str]:
    """Yield the paragraphs of an episode, without those that address the reader."""
    for paragraph in re.split(r"\n\s*\n", episode.content):
        if not _SPOKEN_TO_THE_READER.search(folded(paragraph)):
            yield paragraph


def _spelt(text: str) -> list[str]:
    return _WORD.findall(prepared(folded(text)))


def telling(text: str) -> list[str]:
    """Return the words of a text that are no stop words, folded."""
    return [word for word in _spelt(text) if word not in stop_words()]


def names(text: str) -> frozenset[str]:
    """Return the words written with a capital, except at the start of a sentence."""
    words = re.finditer(r"(?<![.!?:\n])\s{1,40}([^\W\d_]+)", " . " + text)
    capital = [match[1] for match in words if match[1][0].isupper()]
    return frozenset(word for name in capital for word in _spelt(name))


def _same_stem(word: str, other: str) -> bool:
    """Whether two words share enough of their beginning to be forms of one word."""
    longer = max(len(word), len(other))
    shared = max(_LEAST_PREFIX, -int(-longer * _SHARED // 1))
    return word[:shared] == other[:shared] and min(len(word), len(other)) >= shared


def _is_near(match: re.Match[str], days: Sequence[date]) -> bool:
    try:
        meant = date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return False
    return any(abs((meant - day).days) <= _LONGEST_AGO_DAYS for day in days)
