"""Spell the words of any script so that PostgreSQL can index them.

Its parser splits at spaces and stems as English. So scripts without spaces are cut into pairs of
letters, accents and letter forms are folded, and Russian is stemmed; queries and texts alike.
"""

import re
import unicodedata
from functools import cache
from importlib.resources import files

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
