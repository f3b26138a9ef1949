"""Facts and questions that no one wrote, with the words and lengths of ones that people write.

A text is a number: the same on every machine. It has 100 to 300 characters about one of 25
subjects, drawn from a vocabulary of some five thousand words whose frequencies fall as 1 / rank,
with names and dates. It need not make sense; how often its words occur does.
"""

import random
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, product
from pathlib import Path

from butlers.memory.model import NewFact

SHORTEST, LONGEST = 100, 300
_LISTS = {
    name: words.split()
    for name, words in (
        line.split(": ", 1)
        for line in Path(__file__).with_name("speed_words.txt").read_text("utf-8").splitlines()
    )
}
_FUNCTION, _EVERYDAY, _PEOPLE, _VERBS, _MONTHS = (
    _LISTS.pop(name) for name in ("function", "everyday", "people", "verbs", "months")
)
# Surnames and places that nobody has: the long tail of every real vocabulary.
_RARE = tuple(
    "".join(parts).capitalize()
    for parts in product(*(_LISTS.pop(name) for name in ("starts", "vowels", "middles", "ends")))
)
SUBJECTS = tuple(tuple(words) for words in _LISTS.values())
_COMMON = tuple(dict.fromkeys(word for words in zip(*SUBJECTS, strict=True) for word in words))
_ASKED = (
    "What did {who} say about the {0} and the {1}?",
    "When is {who} going to see to the {0}, the {1} and the {2}?",
    "Does {who} still want the {0} with the {1}?",
    "What do we know about {who}, {0} and {1} last week?",
    "Where did {who} get the {0} for the {1}?",
    "Why was {who} not happy with the {0} and {1} in {month}?",
    "Which {0} does {who} like best, and what about the {2}?",
    "How much time does {who} need for the {1}?",
)
# From here on people have a second surname, lest they be those of whom something is known already.
_NAMED_ONCE = 100_000
_WORDS: dict[str, Sequence[str]] = {
    "function": _FUNCTION,
    "everyday": _EVERYDAY,
    "common": _COMMON,
    "rare": _RARE,
}
# What a word of a text is, and the share of words that are that or what stands before it.
_KINDS = {"function": 0.40, "everyday": 0.55, "own": 0.83, "common": 0.90, "rare": 0.98, "date": 1}


def fact(number: int) -> NewFact:
    """The fact of a number; no two of the first million share a subject."""
    # Numbers are spread over the pairs by a step that shares no divisor with their count.
    pair = number * 1_000_003 % (len(_PEOPLE) * len(_VERBS) * len(_RARE))
    rest, person = divmod(pair, len(_PEOPLE))
    name, verb = divmod(rest, len(_VERBS))
    who, predicate = f"{_PEOPLE[person]} {_RARE[name]}", _VERBS[verb]
    if turn := number // _NAMED_ONCE:
        who += f" {_RARE[(name + 37 * turn) % len(_RARE)]}"
    return NewFact(who, predicate, _content(number, len(f"{who} {predicate} ")))


def question(seed: str, about: int) -> str:
    """What somebody asks who half remembers the fact of a number."""
    chance, told, own = random.Random(seed), fact(about), SUBJECTS[about % len(SUBJECTS)]
    shared = sorted(set(own) & set(told.content.replace(".", "").split()))
    words = chance.sample(shared if len(shared) > 2 else own, 3)
    who = told.subject if chance.random() < 0.3 else told.subject.split()[0]
    return chance.choice(_ASKED).format(*words, who=who, month=chance.choice(_MONTHS))


def _content(number: int, taken: int) -> str:
    """Sentences of 6 to 16 words, cut where the text would be longer than was drawn for it."""
    chance, own = random.Random(number), SUBJECTS[number % len(SUBJECTS)]
    length, text = chance.randint(SHORTEST + 20, LONGEST) - taken, ""
    while len(text) <= length:
        words = " ".join(_word(chance, own) for _ in range(chance.randint(6, 16)))
        text += f"{words[0].upper()}{words[1:]}. "
    return text[:length].rsplit(" ", 1)[0]


def _word(chance: random.Random, own: Sequence[str]) -> str:
    (kind,) = chance.choices(tuple(_KINDS), cum_weights=tuple(_KINDS.values()))
    if kind == "date":
        return f"{chance.randint(1, 28)} {chance.choice(_MONTHS)} {chance.randint(2021, 2026)}"
    words = _WORDS.get(kind, own)
    return chance.choices(words, cum_weights=_falling(len(words)))[0]


@cache
def _falling(count: int) -> list[float]:
    """Weights that fall with the rank as those of words do (Zipf and Mandelbrot)."""
    return list(accumulate(1 / (rank + 2.7) for rank in range(count)))
