"""Tell what a user typed in a turn from what was brought along: mails, pages, chats, logs, lists.

What an agent's record says was pasted arrives between `OPENS` and `CLOSES`; the rest is told by its
form, for which `pasted.toml` has the expressions. Plain sentences are the user's. A sentence of
which neither is certain is in doubt: what it states waits for a person.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby

from butlers.kernel.word_tables import expression, load_tables
from butlers.sessions.cues import asks_to_remember

OPENS, CLOSES = "<pasted>", "</pasted>"
_TABLES = {name: expression(*texts) for name, texts in load_tables(__file__).items()}
_RECORDED = re.compile(rf"{OPENS}.*?(?:{CLOSES}|\Z)", re.DOTALL)
# What stands for a paste or a picture in the line that a user typed.
_MARKER = re.compile(
    r"\[(?:\.\.\.)?(?:Pasted (?:text|content)|Truncated text|Image)\b[^\]\n]{0,60}\](?: #\d+)?",
    re.IGNORECASE,
)
PASTED_NOTE = re.compile(r"\[(?:a line|\d+ lines) pasted\]")
"""What stands for a block of code or a log."""
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_COLON = re.compile(r"[:：](?=[\s\"“„«「『])|：")
_QUOTED = re.compile(
    '"[^"]{20,400}"|“[^”]{8,400}”|„[^“”]{8,400}[“”]|«[^»]{8,400}»|「[^」]{8,400}」'
)
_BRACKETED, _ENDED = re.compile(r"\[[^\]\n]{0,60}\]"), re.compile(r"[.!?]\s|[。！？]")
_CLAUSE = 200
"""Characters before a colon that say what it announces."""
RECORDED = -1
"""The paragraph of what a record says was pasted."""
_SHORTEST = 12
_MOST_LINES, _BLOCK, _MOST_CHARACTERS = 2, 1_500, 400


class Doubt(IntEnum):
    """How far it is uncertain that a user typed a sentence."""

    NONE = 0
    SOME = 1
    """Its turn is long: a rule waits."""
    STRONG = 2
    """Something beside it was brought along, or may have been: whatever it states waits."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Lines of a turn, in order: of which paragraph, and whether the user typed them."""

    text: str
    paragraph: int
    is_typed: bool


def is_risky(text: str) -> bool:
    """Whether a text is about money, packages, hosts, credentials or approvals."""
    return _has("risky", text)


def _has(table: str, text: str) -> bool:
    return _TABLES[table].search(text) is not None


def mark_pasted(text: str, pasted: Iterable[str]) -> str:
    """Put what a record says was pasted between its marks, and take placeholders out."""
    blocks = {block for block in map(str.strip, pasted) if len(block) >= _SHORTEST} if text else ()
    known = sorted((block for block in blocks if block in text), key=len, reverse=True)
    if known:
        # At once: what is pasted inside another paste must not end that one.
        text = re.sub("|".join(map(re.escape, known)), _marked, text)
    return _MARKER.sub("", text).strip()


def _marked(block: re.Match[str]) -> str:
    return f"\n{OPENS}\n{block[0].replace(OPENS, '').replace(CLOSES, '')}\n{CLOSES}\n"


def named(text: str) -> str:
    """Return a turn in which what was brought along is named as pasted."""
    parts = list[str]()
    for segment in segments(text):
        whole = segment.text.strip()
        if segment.is_typed or not whole:
            parts.append(segment.text)
        elif parts and parts[-1].endswith("]\n"):
            parts[-1] = f"{parts[-1][:-2]} {whole}]\n"
        else:
            parts.append(f"[pasted: {whole}]\n")
    return "\n".join(parts)


def segments(text: str) -> list[Segment]:
    """Divide a turn, without its code and logs, into what was typed and what was brought along."""
    found, start = list[Segment](), 0
    for block in _RECORDED.finditer(text):
        inner = block[0].removeprefix(OPENS).removesuffix(CLOSES)
        found += [*_by_form(text[start : block.start()]), Segment(inner, RECORDED, is_typed=False)]
        start = block.end()
    return [*found, *_by_form(text[start:])]


def _by_form(text: str) -> Iterator[Segment]:
    is_brought, is_announced, speakers, first = False, False, _speakers(text), 0
    paragraphs = _PARAGRAPH.split(_MARKER.sub("", text))
    for number, paragraph in enumerate(paragraphs):
        lines = [line for line in paragraph.split("\n") if line.strip()]
        # What a document is followed by may be the user's again.
        is_last = 0 < number == len(paragraphs) - 1
        is_brought &= not is_last or _has("document", "".join(lines[:1]))
        for line in lines:
            if PASTED_NOTE.fullmatch(line.strip()):
                # What was announced ends with it, and the user begins anew.
                is_brought, first = is_brought and not is_announced, number + 1
            end = 0 if is_brought or _is_line_of_others(line, speakers) else _typed_until(line)
            is_announced = _announces(line[:end], line[end:])
            if end:
                yield Segment(line[:end], max(0, number - first), is_typed=True)
            if line[end:].strip():
                is_brought |= not _is_line_of_others(line, speakers)
                yield Segment(line[end:], max(0, number - first), is_typed=False)
            is_brought |= is_announced


def _is_line_of_others(line: str, speakers: frozenset[str]) -> bool:
    speaker = _TABLES["speaker"].match(line)
    said = speaker is not None and speaker["who"].casefold() in speakers
    return said or _has("line", line)


def _speakers(text: str) -> frozenset[str]:
    """Return who speaks in a chat: names before a colon of which one comes again."""
    found = filter(None, map(_TABLES["speaker"].match, text.split("\n")))
    names = [match["who"].casefold() for match in found if not _has("own", match["who"])]
    return frozenset(names) if len(names) > len(set(names)) > 1 else frozenset()


def _typed_until(line: str) -> int:
    """Return where in a line something begins that was brought along."""
    if _has("document", line):
        return 0
    greeting = _TABLES["salutation"].search(line)
    announced = (
        colon.end()
        for colon in _COLON.finditer(line)
        if _has("brings", _clause(line, colon.start()))
        and not asks_to_remember(_clause(line, colon.end()))
    )
    return min(greeting.start() if greeting else len(line), next(announced, len(line)))


def _clause(line: str, end: int) -> str:
    return _ENDED.split(line[max(0, end - _CLAUSE) : end])[-1]


def _announces(line: str, rest: str) -> bool:
    """Whether the lines below one are announced by it, and not by asking to remember them."""
    clause = _clause(line.rstrip(), len(line))
    if rest.strip() or not clause.endswith((":", "：")) or asks_to_remember(clause):
        return False
    return _has("brings", clause) or not _has("own", clause)


def doubts(found: Sequence[Segment], sentences: Sequence[tuple[int, str]]) -> list[Doubt]:
    """Say of each typed sentence, with its paragraph, how uncertain it is that a user typed it."""
    typed = [one for one in found if one.is_typed and not PASTED_NOTE.fullmatch(one.text.strip())]
    whole = "\n".join(one.text for one in typed)
    by_form = any(not one.is_typed and one.paragraph != RECORDED for one in found)
    if by_form or len(typed) > _MOST_LINES or len(whole) > _BLOCK or _has("others", whole):
        return [Doubt.STRONG] * len(sentences)
    is_long = len(whole) > _MOST_CHARACTERS or any(one.paragraph > 0 for one in typed)
    is_amid, asking = len(sentences) > 2 or "?" in whole, _asking(found, sentences)
    return [
        Doubt.STRONG
        if asking - {number} or paragraph > 0 or _is_of_others(one)
        else Doubt(is_long or (is_amid and is_risky(one)))
        for number, (paragraph, one) in enumerate(sentences)
    ]


def _asking(found: Sequence[Segment], sentences: Sequence[tuple[int, str]]) -> set[int]:
    """Return which sentences ask about a text, or for work on one that is not on record."""
    if any(one.paragraph == RECORDED for one in found):
        return set()
    return {number for number, (_, one) in enumerate(sentences) if _has("asks", one)}


def _is_of_others(sentence: str) -> bool:
    """Whether a sentence quotes or reports somebody, or is announced by something unknown."""
    sentence = _BRACKETED.sub("", sentence)
    before = _COLON.split(sentence, maxsplit=1)[0]
    is_own = before == sentence or (_has("own", before) and not _has("texts", before))
    if not is_own and not asks_to_remember(f"{before}:"):
        return True
    return bool(_QUOTED.search(sentence)) or _has("attributed", sentence)


def typed_runs(found: Iterable[Segment]) -> list[tuple[int, str]]:
    """Join the lines of each paragraph that were typed one after the other."""
    return [
        (paragraph, "\n".join(one.text for one in run))
        for (is_typed, paragraph), run in groupby(found, lambda one: (one.is_typed, one.paragraph))
        if is_typed
    ]
