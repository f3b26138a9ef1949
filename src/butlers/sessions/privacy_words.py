"""Recognise a user's request to keep something private; the expressions are in a TOML file.

Requests about files, tables and caches are none: a request names the conversation, the message,
or nothing but "this". The prompt hook imports this, so the expressions are read when a word of
theirs is in the text.
"""

import os
import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from typing import Any

# A request has a word of each group of its language.
_STEMS = {
    "en": (
        ("remember", "memor", "stor", "sav", "keep", "record", "between", "private", "retain"),
        ("n't", "n’t", "dont", "not", "never", "stop", "off", "back", "again", "nothing", "out of",
         "between", "private", "no part", "forget"),
    ),
    "de": (("merk", "speicher", "protokoll", "behalt", "gespräch", "unter uns", "sitzung"),
           ("nicht", "wieder", "unter uns", "vertraulich")),
    "es": (("guard", "recuerd", "recordar", "memori", "oficial", "confiden", "entre", "almacen",
            "registr", "grab"), ("no ", "nada", "puedes", "es ", "oficial", "deja", "entre")),
    "fr": (("reti", "reten", "gard", "mémor", "enregist", "micro", "entre nous", "note", "stock",
            "sauvegard", "en off", "souvenir"), ("pas", "rien", "nouveau", "recommenc", "micro",
                                                 "entre nous", "arrête", "en off")),
    "ru": (("запомина", "сохран", "записыва", "протокол", "храни", "между нами"),
           ("не ", "снова", "опять", "между")),
    "zh": (("记", "存", "私下", "外传"), ("不", "别", "勿", "可以", "私下")),
    "ja": (("覚え", "記憶", "保存", "記録", "メモ", "オフレコ", "ここだけ"),
           ("ないで", "オフレコ", "ここだけ", "て")),
}  # fmt: skip
_HEAD_CHARACTERS = 3_000
"""Read of a turn at each end, around what was pasted."""
_LONGEST_SENTENCE = 600
_QUOTED = (
    r"```.*?(?:```|\Z)|`[^`\n]*`|(?m:^[^\S\n]*>.*$)|\"[^\"\n]*\"|“[^“”\n]*”|„[^„“”\n]*[“”]"
    r"|«[^«»\n]*»|「[^「」\n]*」|(?<!\w)['‘][^'‘’\n]*(?:['’]\w[^'‘’\n]*)*['’](?!\w)"
)
_SENTENCE = r"[^.!?\n。！？]+(?:[.!?。！？]+(?=\s|$|[^\x00-\x7f])|\.(?=\S)|[!?]|\n|$)*"
_POLITE = (
    r"(?i)\b(?:please|ok(?:ay)?|thanks|thank you|bitte|danke|por favor|gracias|merci|пожалуйста)\b"
    r"|s['’]il (?:te|vous) pla[iî]t|ください|ね|吧|了"
)


class PrivacyRequest(StrEnum):
    """What a request covers, the widest first; RESUME ends it."""

    SESSION = "session"
    ONWARD = "onward"
    LAST = "last"
    TURN = "turn"
    RESUME = "resume"


def find_request(turn: str) -> PrivacyRequest | None:
    """Return what a user's turn asks to keep private; None if nothing.

    A turn that only says "don't remember this" means the one before it.
    """
    turn = _ends(turn)
    languages = [name for name, stems in _STEMS.items() if _has_each(turn.lower(), stems)]
    if not languages:
        return None
    sentences = list(_sentences(turn))
    requests = [request for text in sentences for request in _requests(text, languages)]
    if not requests:
        return None
    request, rest = min(requests, key=lambda found: list(PrivacyRequest).index(found[0]))
    alone = len(sentences) == 1 and not any(map(str.isalnum, re.sub(_POLITE, "", rest)))
    return PrivacyRequest.LAST if request is PrivacyRequest.TURN and alone else request


def _ends(turn: str) -> str:
    if len(turn) <= 2 * _HEAD_CHARACTERS:
        return turn
    return f"{turn[:_HEAD_CHARACTERS]}\n{turn[-_HEAD_CHARACTERS:]}"


def _has_each(text: str, stems: tuple[tuple[str, ...], ...]) -> bool:
    return all(any(stem in text for stem in group) for group in stems)


def _sentences(turn: str) -> Iterator[str]:
    """Yield the sentences of a turn without what it quotes."""
    for match in re.finditer(_SENTENCE, re.sub(_QUOTED, "", turn, flags=re.DOTALL)):
        sentence = match[0].strip()
        if sentence and len(sentence) <= _LONGEST_SENTENCE:
            yield sentence


def _requests(sentence: str, languages: list[str]) -> Iterator[tuple[PrivacyRequest, str]]:
    """Yield each request of a sentence with the words after it."""
    text = re.sub(f"(?i)^(?:{_tables()['lead']})+", "", sentence)
    if re.search(_tables()["not"], text, re.IGNORECASE):
        return
    for language in languages:
        no = _negation(language)
        starts = [match.end() for match in no.finditer(text)] if no else []
        for request, pattern, is_after in _expressions(language):
            found = (
                [pattern.match(text, at) for at in starts] if is_after else [pattern.search(text)]
            )
            yield from ((request, text[match.end() :]) for match in found if match)


@cache
def _tables() -> dict[str, Any]:
    import tomllib  # noqa: PLC0415  most prompts need none of this

    with open(os.path.join(os.path.dirname(__file__), "privacy_words.toml"), "rb") as file:
        return tomllib.load(file)


@cache
def _negation(language: str) -> re.Pattern[str] | None:
    """Compile what precedes the expressions under `after_no`, if a language has them."""
    table = _tables()[language]
    return re.compile(table["no"], re.IGNORECASE) if "after_no" in table else None


@cache
def _expressions(language: str) -> list[tuple[PrivacyRequest, re.Pattern[str], bool]]:
    """Compile the expressions of a language, each with whether it follows a negation."""
    table, shared = _tables()[language], _tables()
    fragments = {name: text for name, text in table.items() if isinstance(text, str)}
    fragments |= {name: shared[name] for name in ("end", "stop")}
    return [
        (request, _compiled(text, fragments), is_after)
        for is_after, texts in ((True, table.get("after_no", {})), (False, table))
        for request in PrivacyRequest
        for text in texts.get(request, ())
    ]


def _compiled(text: str, fragments: dict[str, str]) -> re.Pattern[str]:
    for _ in range(2):  # a fragment may use another
        for name, fragment in fragments.items():
            text = text.replace(f"{{{name}}}", fragment)
    return re.compile(text, re.IGNORECASE)
