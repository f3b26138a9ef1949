"""Divide an episode into sentences, and find those of a person that may state something lasting.

Requests, questions, plans for the task at hand, passing faults and reactions are no statements: a
small model cannot tell them apart. The expressions are in `consolidation_sentences.toml`.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from butlers.kernel.word_tables import expression, load_tables

TABLES = load_tables(__file__)
_LEAD, _TRAIL = expression(f"^(?:{TABLES['lead']})+"), expression(TABLES["trail"])
_STANDING, _REQUEST, _PLAN, _PASSING, _REACTION = (
    expression(*TABLES[name]) for name in ("standing", "request", "plan", "passing", "reaction")
)
# A full stop within a word, after a title as in "Dr. Li" or in a German date ends nothing.
_SENTENCE = re.compile(
    r"(?:[^.!?…。！？\n]|[.!?…](?!\s|$)|(?<=\b[A-Z][a-z])\.|(?<=\b[A-Z])\.|(?<=\bProf)\."
    r"|(?:(?<=\b\d)|(?<=\b\d\d))\.(?=\s(?:bis|an|Januar|Februar|März|April|Mai|Juni|Juli|August"
    r"|September|Oktober|November|Dezember)\b))+"
    r"(?:[.!?…]+|[。！？]+)?"
)
_SPEAKER = expression(
    r"(?:(user|human|request|then|stated|said|correction)|assistant|ai|agent|outcome)\s*:\s*"
)
_CLAUSE_END = re.compile(r"[,;]\s+(?:(?:so|and|also|und|also)\s+)?|\s[—–-]\s")
_PASTED = re.compile(r"\bERROR\b|\berror:|\w\.[a-z]+:\d+|Traceback|\[(?:a line|\d+ lines) pasted\]")
_UNREADABLE = (_REACTION, _PASTED)
_UNSPACED = re.compile("[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_LEAST_WORDS, _LONGEST, _MOST = 3, 400, 30


class Sentence(NamedTuple):
    """A sentence, and whether a person says it."""

    text: str
    is_persons: bool

    @property
    def is_question(self) -> bool:
        """Whether it ends as a question does."""
        return self.text.endswith(("?", "？"))


def sentences(paragraph: str) -> Iterator[Sentence]:
    """Yield every sentence; a person says it unless another speaker is named."""
    is_persons = True
    for match in _SENTENCE.finditer(paragraph):
        text = match[0].strip()
        if speaker := _SPEAKER.match(text):
            is_persons = speaker[1] is not None
            text = text[speaker.end() :]
        if text:
            yield Sentence(text, is_persons)


def statements(paragraphs: Iterable[str]) -> list[str]:
    """List what a person may have stated, each as it was said, without what surrounds it."""
    whole = [one for text in paragraphs for one in sentences(text)]
    own = [one.text for one in whole if one.is_persons and not one.is_question]
    found = [plain for text in own if (plain := statement(text))]
    return list(dict.fromkeys(found))[:_MOST]


def statement(sentence: str) -> str:
    """Return what a sentence states, without fillers and added requests; "" if nothing."""
    text = _without_requests(_LEAD.sub("", sentence).strip().rstrip(" .!…"))
    refusing = _UNREADABLE if is_standing(text) else (*_UNREADABLE, _REQUEST, _PLAN, _PASSING)
    if len(text) > _LONGEST or any(pattern.search(text) for pattern in refusing):
        return ""
    plain = _TRAIL.sub("", text)
    is_long_enough = len(plain.split()) >= _LEAST_WORDS or _UNSPACED.search(plain)
    return plain if is_long_enough else ""


def is_standing(text: str) -> bool:
    """Whether a sentence says what holds or is to be done always or never."""
    return _STANDING.search(text) is not None


def _without_requests(text: str) -> str:
    """Cut off clauses about the task at hand: "I hate coriander, leave it out"."""
    while (end := _CLAUSE_END.search(text)) and _PLAN.search(text[: end.start()]):
        text = text[end.end() :]
    for end in reversed([] if is_standing(text) else list(_CLAUSE_END.finditer(text))):
        if not _REQUEST.search(text[end.end() :]):
            break
        text = text[: end.start()]
    return text
