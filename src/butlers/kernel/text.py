"""Clean text before it is stored, searched or shown, and spell its words for the index.

Invisible characters (default-ignorable in Unicode) can hide text from people that a model still
reads. They are removed, except where they change what is visible: joiners within scripts that need
them, emoji of several characters, the glyph of a Han name.

PostgreSQL's parser splits at spaces and stems as English. So scripts without spaces are cut into
pairs of letters, accents and letter forms are folded, and Russian is stemmed; queries and texts
alike.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from butlers.kernel.word_tables import load_tables

_CLASSES = load_tables(__file__)
_UNSEEN, _JOINING, _PICTURE, _HAN = (
    _CLASSES[name] for name in ("unseen", "joining", "picture", "han")
)
# England, Scotland and Wales: the flags that are written in tags.
_FLAGS = "|".join(
    "".join(chr(0xE0000 + ord(letter)) for letter in name) for name in ("gbeng", "gbsct", "gbwls")
)
_MEANT = (
    f"(?<=[{_JOINING}])[\u200c\u200d](?=[{_JOINING}])"
    "|(?<=[\u1820-\u18af])[\u180b-\u180f]"
    f"|(?<=[{_PICTURE}])[\ufe0e\ufe0f]|(?<=[0-9#*])\ufe0f(?=\u20e3)"
    f"|(?<=[{_PICTURE}\ufe0f])\u200d(?=[{_PICTURE}])"
    f"|(?<=\U0001f3f4)(?:{_FLAGS})\U000e007f"
)
_GLYPH = f"(?<=[{_HAN}])[\ufe00-\ufe02\U000e0100-\U000e01ef]"
_STORED = re.compile(f"({_MEANT}|{_GLYPH})|[{_UNSEEN}]+")
_SHOWN = re.compile(f"({_MEANT})|[{_UNSEEN}]+")


MAX_SEARCHABLE_BYTES = 1_048_576
"""How much of a text its search vector holds; PostgreSQL refuses tsvectors above 1 MB."""

DEEPEST = 500
"""How deep JSON may be nested: less than Python's own parser allows."""

_SURROGATE = re.compile("[\ud800-\udfff]")
# Not \s alone: control characters and the Unicode separators break lines in some readers.
_BREAKING = re.compile("[\\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")

_UNDECOMPOSED = str.maketrans(
    {"ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe", "ı": "i", "ё": "е"}
)
# Latin and Greek letters only: elsewhere, as in й or が, a mark makes another letter.
_ACCENTED = re.compile("([a-zα-ω])[\u0300-\u036f]+")
_HAN_AND_KANA = "\u3005-\u3007\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
_IDEOGRAPHS = "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_RUN = re.compile(
    f"(?P<unspaced>[{_HAN_AND_KANA}{_IDEOGRAPHS}]+)"
    "|(?P<hangul>[\uac00-\ud7a3]+)|(?P<cyrillic>[\u0400-\u04ff]+)"
)


def clean(text: str) -> str:
    """Remove NUL and invisible characters; the result can be encoded as UTF-8."""
    text = text.replace("\x00", "")
    return text if text.isascii() else _STORED.sub(r"\1", replace_surrogates(text))


def clean_json(value: object, depth: int = DEEPEST) -> Any:
    """Clean every text of a JSON value; TypeError names a wrong type, RecursionError: too deep."""
    if depth == 0:
        raise RecursionError
    match value:
        case str():
            return clean(value)
        case None | bool() | int() | float():
            return value
        case list() | tuple():
            return [clean_json(item, depth - 1) for item in value]
        case Mapping():
            return {_clean_key(key): clean_json(item, depth - 1) for key, item in value.items()}
    raise TypeError(type(value).__name__)


def _clean_key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(type(key).__name__)
    return clean(key)


def replace_surrogates(text: str) -> str:
    """Replace surrogate pairs by their character, and lone surrogates by U+FFFD."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def normalise_whitespace(text: str) -> str:
    """Replace every run of whitespace by one space; strip both ends."""
    return " ".join(text.split())


def says_the_same(one: str, other: str) -> bool:
    """Whether two texts are equal but for spaces and case."""
    return normalise_whitespace(one).casefold() == normalise_whitespace(other).casefold()


def preprocess_text(text: str) -> str:
    """Prepare a text for its search vector: clean, on one line, at most 1 MB."""
    # No code point takes less than a byte, so the rest need not be encoded.
    beginning = " ".join(clean(text).split())[:MAX_SEARCHABLE_BYTES].encode()
    return beginning[:MAX_SEARCHABLE_BYTES].decode("utf-8", "ignore").rstrip()


def preprocess_search_query(query: str | None) -> str:
    """Prepare a query: clean, on one line; empty for None."""
    return " ".join(clean(query).split()) if query else ""


def without_middle(text: str, longest: int = 2_000) -> str:
    """Shorten an error message: its ends say which field and what is valid."""
    return text if len(text) <= longest else f"{text[: longest // 2]} … {text[-longest // 2 :]}"


def one_line(text: str) -> str:
    """Put a text on one line, in the order it is stored, so that it cannot forge a heading.

    Selectors of glyphs go too: they could spell a sentence that only a model reads.
    """
    line = clean(text)
    return _BREAKING.sub(" ", line if line.isascii() else _SHOWN.sub(r"\1", line)).strip()


def prepared(text: str) -> str:
    """Spell a text or a query for the index; ASCII stays as it is."""
    return text if text.isascii() else _RUN.sub(_spelt, folded(text))


def folded(text: str) -> str:
    """Fold case, accents and other forms of the same letters."""
    plain = unicodedata.normalize("NFKC", text).casefold().translate(_UNDECOMPOSED)
    bare = _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", plain))
    return unicodedata.normalize("NFC", bare)


def _spelt(run: re.Match[str]) -> str:
    word = run[0]
    if run["cyrillic"]:
        return _stem(word)
    pairs = _pairs(word)
    return f" {word} {pairs} " if run["hangul"] and len(word) > 2 else f" {pairs} "


def _stem(word: str) -> str:
    # Most processes never see a Cyrillic word, and the package loads every language it knows.
    from snowballstemmer import stemmer  # noqa: PLC0415

    return str(stemmer("russian").stemWord(word))


def _pairs(run: str) -> str:
    """Pair each letter with the next one; a single letter stays."""
    return " ".join(run[i : i + 2] for i in range(max(1, len(run) - 1)))


@cache
def stop_words() -> frozenset[str]:
    """Return words that mean little alone, in several languages, spelled as by `prepared`."""
    words = (files(__package__) / "stop_words.txt").read_text(encoding="utf-8")
    return frozenset(prepared(folded(words)).split())
