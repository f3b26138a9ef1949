"""Read by rule what a sentence is about: its subject, its predicate, and what it says of them.

In English and German, by a closed set of patterns. Where none fits the key is plain ("project",
"note"), so that two sentences have the same key only if their grammar says so.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from butlers.kernel.text import normalise_whitespace
from butlers.kernel.word_tables import load_tables
from butlers.memory.policy.quantities import quantities

_TABLES = load_tables(__file__)
PROJECT, USER, NOTE = "project", "user", "note"
_NOUNS: dict[str, str] = _TABLES["nouns"]
_LONGEST = 300
"""Characters of a sentence that are read."""


def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which `<verbs>` stands for that table's words."""
    while named := re.search(r"(?<!P)<(\w+)>", pattern):
        pattern = pattern.replace(named[0], f"(?:{_TABLES[named[1]]})")
    return re.compile(pattern, re.IGNORECASE)


_BEGIN = _compiled(r"^(?:<lead>\b[\s,.:;!—–-]*)+")
_ADVERB = _compiled(r"(?<!\w),? ?\b<adverbs>\b(?!-)")
_ARTICLE, _TAIL = _compiled(r"^<determiners>\s+"), _compiled("<tail>")
_REWRITES = [(_compiled(row["from"]), row["to"]) for row in _TABLES["rewrites"]]
_FORMS = [{**row, "form": _compiled(row["form"])} for row in _TABLES["forms"]]


@dataclass(frozen=True, slots=True)
class StatementKey:
    """What a sentence is about, and what it says of that."""

    subject: str
    predicate: str
    value: str = ""
    is_single: bool = False
    """Whether another value of the same subject and predicate takes this one's place."""

    @property
    def is_plain(self) -> bool:
        """Whether the sentence's grammar says nothing of what it is about."""
        return self.predicate == NOTE

    def is_replaced_by(self, other: "StatementKey") -> bool:
        """Whether another statement gives the same property another value."""
        same = (self.subject, self.predicate) == (other.subject, other.predicate)
        if not same or self.is_plain or self.value.casefold() == other.value.casefold():
            return False
        mine, theirs = quantities(self.value.casefold()), quantities(other.value.casefold())
        return mine.differ_from(theirs) is not None or (self.is_single and other.is_single)


@lru_cache(maxsize=2_000)
def statement_key(sentence: str) -> StatementKey:
    """Return what a sentence is about; plain where its grammar does not say.

    >>> key = statement_key("The cache listens on port 6380 on my laptop.")
    >>> (key.subject, key.predicate, key.value)
    ('cache', 'port', '6380')
    """
    text = _plain(sentence)
    keys = (_read(text, **form) for form in _FORMS)
    return next(filter(None, keys), _plain_key(text))


def _plain(sentence: str) -> str:
    """Return a sentence without what changes nothing about its matter."""
    text = normalise_whitespace(_BEGIN.sub("", sentence[:_LONGEST].strip()))
    for pattern, form in _REWRITES:
        text = pattern.sub(form, text)
    return normalise_whitespace(_TAIL.sub("", _ADVERB.sub("", text))).strip(" .!,;:")


def _read(
    text: str,
    form: re.Pattern[str],
    subject: str = "",
    predicate: str = "",
    is_single: bool = False,
) -> StatementKey | None:
    match = form.search(text)
    if match is None:
        return None
    parts = {name: part or "" for name, part in match.groupdict().items()}
    about = subject or _about(parts)
    verb = predicate or " ".join(_predicate(parts))
    return StatementKey(about, verb, parts["value"].strip(" .`"), is_single)


def _about(parts: dict[str, str]) -> str:
    if "noun" in parts:
        verb = _lemma(parts["noun"])
        return _NOUNS.get(verb, verb)
    return _ARTICLE.sub("", parts["subject"]).strip(" `'").casefold()


def _predicate(parts: dict[str, str]) -> Iterator[str]:
    if "attribute" in parts:
        yield parts["attribute"].casefold()
    if "verb" in parts:
        yield _lemma(parts["verb"])
    if "prep" in parts:
        yield parts["prep"].casefold()


_IRREGULAR = {"goes": "go", "has": "have", "applies": "apply", "is": "is", "us": "use"}


def _lemma(verb: str) -> str:
    """Return a verb without the ending of its person, roughly; German stays as it is."""
    word, *rest = verb.casefold().split()
    plain = _IRREGULAR.get(word) or (word[:-1] if re.search(r"[^sui]s$", word) else word)
    return " ".join([plain, *rest])


def _plain_key(text: str) -> StatementKey:
    is_own = re.match(r"(?:i|my|ich|mein\w*)\b", text, re.IGNORECASE)
    return StatementKey(USER if is_own else PROJECT, NOTE, text)
