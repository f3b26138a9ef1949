"""Detect memories that attack their reader, in any spelling.

They overrule what it was told, hide words from people, imitate a context block, or send secrets
away. What merely says how to behave passes: its source is named wherever it is told. Only what
programs store is judged: people may say anything.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain

from butlers.kernel.text import folded
from butlers.kernel.word_tables import filled, load_tables

LONGEST = 20_000
"""The maximum number of characters to judge: half from the beginning, half from the end."""

HIDDEN = "hidden text"
FORGED = "the form of a context block"
ORDER = "instructions to the reader"
AWAY = "sends data away or runs what it fetches"

# Flags of regions are written with tags; other text in tags is visible to models only.
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e007a]{1,6}\U000e007f")
_UNSEEN = "\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff"
_HIDDEN = re.compile(
    "[\U000e0000-\U000e007f]{3}|[\U000e0100-\U000e01ef]{3}|[\u202d\u202e]"
    f"|[{_UNSEEN}]{{8}}"
    "|(?:[a-zA-Z\u0400-\u04ff]\u200b[a-zA-Z\u0400-\u04ff].{0,40}){3}",
    re.DOTALL,
)
_INVISIBLE = re.compile(f"[{_UNSEEN}\u061c\u202a-\u202e\u2066-\u2069\U000e0000-\U000e01ef]")
_TABLES = load_tables(__file__)
_FORGED, _AWAY, _FETCHED, _EACH = (
    re.compile("|".join(_TABLES[name]), re.DOTALL) for name in ("forged", "away", "fetched", "each")
)
_NEAR = 200
_ENDS_A_NAME = re.compile(r"\]\s*[\[:(]")
_SPACED = re.compile(r"(?<!\w)(?:\w[ .*_-]){2,}\w(?!\w)")
_FIGURED = re.compile(r"(?<!\w)(?=\w*\d)(?=\w*[a-z]{2})\w{5,}")
_FIGURES = str.maketrans("013457", "oieast")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_WORD_WITH_SIGNS = re.compile(r"\(\?:\\W\+\[\\w([^\]]+)\]\+\)")
_BOUNDS = {r"\W+": r"\W{1,40}", r"\w+": r"\w{1,80}", r"\w*": r"\w{0,80}", "]+@": "]{1,64}@"}
_LINE_BREAK = re.compile("[\u2028\u2029\u0085]")
_MIXED = re.compile(r"[^\W\d_]+")
_LOOKALIKES = str.maketrans("авекмнорстухіјѕԁһӏαεικνορτυχ", "abekmhopctyxijsdhlaeiknoptux")


def doubt(text: str, *, names: Iterable[str] = ()) -> str:
    """Return why a program's text is suspicious; empty if it is not.

    Names are shown in brackets, and must not close them.
    """
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n{text[-LONGEST // 2 :]}"
    if not text.isascii() and _HIDDEN.search(_FLAG.sub("", text)):
        return HIDDEN
    reasons = map(_reason_in, _readings(text))
    closing = (FORGED for name in names if _ENDS_A_NAME.search(name))
    return next(chain(filter(None, reasons), closing), "")


def _reason_in(text: str) -> str:
    """Return why a plainly spelt text is suspicious."""
    if _FORGED.search(text):
        return FORGED
    line = " ".join(text.split())
    if _AWAY.search(text) or any(map(_is_standing, _FETCHED.finditer(text))):
        return AWAY
    return ORDER if _any_of("orders").search(line) else ""


def _is_standing(fetched: re.Match[str]) -> bool:
    """Whether something fetched is to be run again and again."""
    start, end = max(0, fetched.start() - _NEAR), fetched.end() + _NEAR
    return _EACH.search(fetched.string, start, end) is not None


@lru_cache
def _any_of(table: str) -> re.Pattern[str]:
    """Compile the patterns of a table of `suspicion.toml` into one."""
    return re.compile(_bounded(filled("|".join(_TABLES[table]), _TABLES["fragments"])))


def _bounded(pattern: str) -> str:
    """Bound every repetition, so that reading takes linear time; words are within the bounds.

    Between two words and in them no sign may count as both: a run of it could be split in
    exponentially many ways.
    """
    pattern = _WORD_WITH_SIGNS.sub(r"[\1]{0,3}(?:[^\\w\1]{1,40}[\\w\1]{1,80})", pattern)
    for endless, bounded in _BOUNDS.items():
        pattern = pattern.replace(endless, bounded)
    return pattern


def _readings(text: str) -> Iterator[str]:
    """Yield a text as a model may read it: plain, without spacing and digits, decoded."""
    plain = _plain(text)
    yield plain
    closed = _SPACED.sub(lambda run: re.sub(r"[ .*_-]", "", run[0]), plain)
    lettered = _FIGURED.sub(lambda word: word[0].translate(_FIGURES), closed)
    if lettered != plain:
        yield lettered
    yield from map(_plain, filter(None, map(_decoded, _ENCODED.findall(text)[:20])))


def _plain(text: str) -> str:
    """Return the text in lower case, one script a word, without invisible characters."""
    if text.isascii():
        return text.lower()
    seen = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    return _MIXED.sub(_of_one_script, folded(_LINE_BREAK.sub("\n", seen)))


def _of_one_script(word: re.Match[str]) -> str:
    """Replace lookalike letters in a word that also has Latin ones."""
    if word[0].isascii():
        return word[0]
    latin = word[0].translate(_LOOKALIKES)
    return latin if re.search("[a-z]", word[0]) and latin.isascii() else word[0]


def _decoded(part: str) -> str:
    """Return the words that a part in Base64 decodes to; empty if it is something else."""
    padded, alphabet = part + "=" * (-len(part) % 4), b"-_" if "-" in part else None
    try:
        words = base64.b64decode(padded, alphabet).decode()
    except (binascii.Error, ValueError):
        return ""
    return words if " " in words and words.isprintable() else ""
