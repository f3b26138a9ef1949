"""Which of the ten categories a note belongs to, judged by its words."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from butlers.notebook.model import CategoryResult, MemoryCategory
from butlers.notebook.tokens import words

CONFIDENCE_FLOOR = 0.1
_CERTAIN = 50
"""As many points leave no doubt."""

_IN_KEY, _IN_CONTENT = 15, 10
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_APOSTROPHE = re.compile("['\N{RIGHT SINGLE QUOTATION MARK}]")
_ENDINGS = ("", "s", "es", "d", "ed", "ing", "er", "ers", "ment", "ments", "able", "ee", "ees")


@dataclass(frozen=True, slots=True)
class _Signs:
    """What speaks for a category: a sign is a word or `two-words`, a `|` parts its spellings.

    A word may be bent (`deployed` for `deploy`) unless a `=` precedes it. `naming` are the signs
    that add `weight` to the category where they name the note.
    """

    category: MemoryCategory
    weight: int
    naming: str
    signs: str


# Between equals the first wins: better a secret too many than one too few.
_SIGNS = (
    _Signs(
        MemoryCategory.CREDENTIAL,
        25,
        """auth|oauth|authentication|authorization|authorisation credential password|passwd secret
        token api-key|apikey|apikeys""",
        """auth|oauth|authenticate|authentication|authorize|authorization|authorisation oauth bearer
        credential password|passwd passphrase secret token api-key|apikey access-key private-key
        ssh-key mnemonic seed-phrase""",
    ),
    _Signs(
        MemoryCategory.CONFIG,
        20,
        "config|configuration|configure setting env|environment|dotenv param|parameter",
        """config|configuration|configure configuration setting env|environment environment
        variable flag option parameter threshold timeout port host|hostname|localhost url
        endpoint""",
    ),
    _Signs(
        MemoryCategory.CODE,
        18,
        "code|codebase|coding snippet func|function algo|algorithm impl|implementation|implement",
        """algorithm snippet implementation function class interface module import export =const
        =let =var return =async =await query sql|mysql|postgresql|sqlite javascript typescript
        python""",
    ),
    _Signs(
        MemoryCategory.PERSON,
        20,
        "who person|personal contact team|teammate member",
        """person|personal contact email phone|telephone team|teammate member colleague manager
        user|username name-is role-is works-at""",
    ),
    _Signs(
        MemoryCategory.PROJECT,
        18,
        "project repo|repository deploy|redeploy release",
        """project roadmap milestone sprint architecture repo|repository repository github branch
        deploy|redeploy release version""",
    ),
    _Signs(
        MemoryCategory.TASK,
        20,
        "task|subtask todo remind|reminder action",
        """task|subtask todo reminder deadline due-date action-item follow-up assign|reassign
        blocker priority""",
    ),
    _Signs(
        MemoryCategory.PREFERENCE,
        15,
        "pref|prefer|preference|preferred style like|dislike favorite|favourite",
        """prefer|preference|preferred preference like|dislike dislike favorite|favourite default
        style theme format convention habit""",
    ),
    _Signs(
        MemoryCategory.CONVERSATION,
        18,
        "chat convo meeting notes summary",
        """chat conversation discussion meeting recap summary mentioned said told-me notes-from""",
    ),
    _Signs(
        MemoryCategory.FACT,
        15,
        "fact def|definition|define glossary what-is",
        """definition acronym concept explanation documentation means is-a|is-an refers-to
        stands-for""",
    ),
)


def all_categories() -> list[MemoryCategory]:
    """The ten categories."""
    return list(MemoryCategory)


def categorize(key: str, content: str) -> CategoryResult:
    """The category most of the signs point to; `general`, with confidence 0, where none does."""
    points = _points(_phrases(key), _phrases(content))
    if not points:
        return CategoryResult(MemoryCategory.GENERAL, 0.0)
    best = max(_ORDER, key=points.__getitem__)
    return CategoryResult(best, max(CONFIDENCE_FLOOR, min(1.0, points[best] / _CERTAIN)))


def _points(key: set[str], content: set[str]) -> Counter[MemoryCategory]:
    """What every sign found adds to its category, more where it stands in the key."""
    named = _match_phrases(_KEYWORDS, key)
    points: Counter[MemoryCategory] = Counter()
    for sign in named | _match_phrases(_KEYWORDS, content):
        points[sign[0]] += _IN_KEY if sign in named else _IN_CONTENT
    for category, _ in _match_phrases(_NAMES, key):
        points[category] += _NAME_WEIGHTS[category]
    return points


def _phrases(text: str) -> set[str]:
    """Every word and every two neighbours; `dbPassword` is read as one word and as two."""
    found: set[str] = set()
    whole = _APOSTROPHE.sub("", text)
    for reading in {whole, _HUMP.sub(" ", whole)}:
        single = words(reading)
        found.update(single, map(" ".join, zip(single, single[1:], strict=False)))
    return found


_Sign = tuple[MemoryCategory, str]
_Index = dict[str, list[_Sign]]


def _match_phrases(index: _Index, phrases: Iterable[str]) -> set[_Sign]:
    return {sign for phrase in phrases for sign in index.get(phrase, ())}


def _indexed(texts: Iterable[tuple[MemoryCategory, str]]) -> _Index:
    """Each spelling of each sign, in all its forms, to the signs it stands for."""
    index: _Index = {}
    for category, signs in texts:
        for sign in signs.split():
            for form in {form for spelling in sign.split("|") for form in _forms(spelling)}:
                index.setdefault(form, []).append((category, sign))
    return index


def _forms(spelling: str) -> set[str]:
    """A word as it stands and as it is bent; of two words the last is."""
    if spelling.startswith("="):
        return {spelling[1:]}
    phrase = spelling.replace("-", " ")
    stem = phrase[:-1] if phrase[-1] in "ey" else phrase + phrase[-1]
    forms = {phrase + ending for ending in _ENDINGS}
    return forms | {stem + ending for ending in ("ing", "ed", "ies", "ied")}


_ORDER = tuple(signs.category for signs in _SIGNS)
_KEYWORDS = _indexed((signs.category, signs.signs) for signs in _SIGNS)
_NAMES = _indexed((signs.category, signs.naming) for signs in _SIGNS)
_NAME_WEIGHTS = {signs.category: signs.weight for signs in _SIGNS}
