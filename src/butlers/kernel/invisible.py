"""Characters that nobody sees: they hide text from people that a model reads all the same.

Unicode calls them default-ignorable. They go, but for the few places where they change what is
seen: joiners within scripts that need them, emoji that are one picture, the glyph of a Han name.
"""

import re

# Tag characters, fillers, soft hyphens, joiners, selectors, and controls of direction.
_UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
# Arabic and its kin, the scripts of India and their neighbours up to Mongolian.
_JOINING = (
    "\u0600-\u061b\u061d-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18af\ua840-\ua8ff\ua9e0-\uaa7f"
)
_PICTURE = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf"
    "\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# England, Scotland and Wales: the flags that are spelt in tags.
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


def without_unseen(text: str) -> str:
    """The text without what nobody sees, as it is stored."""
    return text if text.isascii() else _STORED.sub(_meant, text)


def without_any_unseen(text: str) -> str:
    """The same for an agent: selectors of glyphs could spell a sentence, and it needs no glyph."""
    return text if text.isascii() else _SHOWN.sub(_meant, text)


def _meant(match: re.Match[str]) -> str:
    return match[1] or ""
