"""A user's own words in a turn: without what was pasted into it, sentence by sentence."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from butlers.memory.model import NewFact, NewRule, Origin, Permanence
from butlers.sessions.cues import (
    Cue,
    CueKind,
    asks_to_remember,
    disagrees,
    may_be_kept,
    points_back,
    stated,
    to_remember,
)

_FENCED = re.compile(
    r"^[ \t]*(```|~~~)[^\n]*\n.*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
# How programs write: logs, traces, prompts, differences; and lines set in as code is.
_MACHINE = re.compile(
    r"\s*\[?\d{4}-\d\d-\d\d[T ]|\s*\[?\d\d:\d\d:\d\d|\w{3} +\d+ \d\d:\d\d"
    r"|\s*(?:at |File \"|Traceback |Caused by:|\.{3} \d+ more|#\d+ |goroutine )"
    r"|.*\b(?:ERROR|WARN|WARNING|INFO|DEBUG|TRACE|FATAL|E\d{4})\b"
    r"|(?:\$|%|>>>|\+\+\+|---|@@|diff |index |[+-](?=\S|\s{2,})) ?\S|(?: {4}|\t)\s*\S"
)
_SIGN = re.compile(r"[{}()\[\];=<>|\\/_$&*^~\"'`:,.+\d-]")
_MUCH = 0.3
_SHORTEST_RUN, _LONGEST_WORDLESS, _WRAPPED, _ABBREVIATION = 3, 400, 60, 12
_QUOTED = re.compile(
    r"`[^`\n]+`|\"[^\"\n]{1,400}\"|“[^”\n]+”|„[^“”\n]+[“”]|«[^»\n]+»|「[^」\n]+」|『[^』\n]+』"
)
_ABBREVIATED = re.compile(
    r"(?:\b(?:Mrs?|Ms|Dr|Dra|St|Prof|Sra?|Mme|Mlle|vs|approx|ca|bzw|usw|inkl|Nr|Str|etc|tel|ext"
    r"|г|ул|им|стр|(?-i:[A-ZА-Я]))|\b(?:e\.g|i\.e|z\.B|d\.h|u\.a|т\.е|т\.д))\.$",
    re.IGNORECASE,
)
_END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？]+[」』”）]*|\n")
_LISTED = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]+")


def without_pasted(text: str) -> str:
    """A turn with every block of code, log or trace in it replaced by how long it was."""
    text = _FENCED.sub(lambda block: _noted(block[0].strip("\n").split("\n")), text)
    kept: list[str] = []
    run: list[str] = []
    for line in text.split("\n"):
        if _is_machine(line) or (run and not line.strip()):
            run.append(line)
            continue
        kept += [*_settled(run), line]
        run = []
    return "\n".join([*kept, *_settled(run)]).strip()


def unquoted(sentence: str) -> str:
    """A sentence with an ellipsis for everything in quotation marks: those are others' words."""
    return _QUOTED.sub("…", sentence)


def is_listed(sentence: str) -> bool:
    """Whether a sentence is an item of a list."""
    return _LISTED.match(sentence) is not None


def unlisted(sentence: str) -> str:
    """A sentence without the sign that makes it an item of a list."""
    return _LISTED.sub("", sentence)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text as they stand there, what they quote included."""
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    start = 0
    for end in _END.finditer(text):
        if _goes_on(text, start, end) or any(a < end.end() < b for a, b in quoted):
            continue
        yield from _utterance(text[start : end.end()])
        start = end.end()
    yield from _utterance(text[start:])


def own_sentences(text: str) -> list[str]:
    """The sentences that a user said, not showed: no quotation, no document, no block."""
    paragraphs = re.split(r"\n[ \t]*\n", without_pasted(_FENCED.sub("", text)))
    shown = False
    own: list[str] = []
    for place, paragraph in enumerate(paragraphs):
        last = place == len(paragraphs) - 1
        shown = shown or _is_document(paragraph)
        if not shown or (last and place and not _is_document(paragraph)):
            own += _unshown(paragraph)
        shown = shown or _announces(paragraph)
    return own


def _unshown(paragraph: str) -> Iterator[str]:
    """The sentences of a paragraph up to the line that announces what follows it."""
    lines = [line for line in paragraph.split("\n") if not line.lstrip().startswith(">")]
    for place, line in enumerate(lines[:-1]):
        if _announces(line):
            return sentences("\n".join(lines[: place + 1]))
    return sentences("\n".join(lines))


def _announces(text: str) -> bool:
    """Whether what follows is shown: announced, and not by asking to remember it."""
    line = text.rstrip().rpartition("\n")[2]
    return line.endswith((":", "：")) and not asks_to_remember(line)


def _is_document(paragraph: str) -> bool:
    return re.match(r"[ \t]*(?:#{1,6} |>|<\w+)", paragraph) is not None


def _goes_on(text: str, start: int, end: re.Match[str]) -> bool:
    """Whether what looks like an end is none: an abbreviation, or a line that was wrapped."""
    if end[0] == "\n" and end.start() - text.rfind("\n", 0, end.start()) <= _WRAPPED:
        return False
    if end[0][-1] in "\n\"'”’»)]":
        return re.match(r"\s?[a-zà-ÿа-я]", text[end.end() : end.end() + 2]) is not None
    before = text[max(start, end.end() - _ABBREVIATION) : end.end()]
    return end[0] == "." and _ABBREVIATED.search(before) is not None


def _utterance(piece: str) -> Iterator[str]:
    piece = piece.strip()
    if any(map(str.isalnum, piece)):
        yield piece


def _is_machine(line: str) -> bool:
    if _LISTED.match(line):
        return False
    if _MACHINE.match(line):
        return True
    words = line.replace(" ", "")
    signs = len(_SIGN.findall(words))
    return len(words) > 2 and (signs > len(words) * _MUCH or _is_wordless(line))


def _is_wordless(line: str) -> bool:
    """Whether a line is one long code: scripts that do without spaces are none."""
    if len(line) <= _LONGEST_WORDLESS:
        return False
    return max(map(len, re.findall(r"[!-~]+", line)), default=0) > len(line) // 2


def _settled(run: list[str]) -> list[str]:
    """A run of lines as it is kept: whole if it is short, else its length."""
    written = [line for line in run if line.strip()]
    if len(written) >= _SHORTEST_RUN or sum(map(len, written)) > _LONGEST_WORDLESS:
        return [_noted(written), ""]
    return run


def _noted(lines: list[str]) -> str:
    return f"[{len(lines)} lines pasted]" if len(lines) > 1 else "[a line pasted]"


STATED_CONFIDENCE = 0.5
"""How sure a fact is that was read by rule, until somebody confirms it."""

_USER = "user"
_TAGS = ("stated",)
_PERMANENCE = dict.fromkeys((CueKind.NAME, CueKind.IDENTITY, CueKind.PREFERENCE), Permanence.STABLE)
"""What is said of users themselves stays true longer than the rest."""
_PREDICATES = {
    CueKind.DECISION: "decision",
    CueKind.CORRECTION: "correction",
    CueKind.REMEMBER: "to remember",
}
_ARTICLE = re.compile(r"^(?:the|an?|der|die|das|el|la|los|las|le|les|l['’]) ?\b", re.IGNORECASE)
_TOPIC_WORDS, _TOPIC_CHARACTERS = 6, 60


@dataclass(frozen=True, slots=True)
class SpokenStatement:
    """A sentence that states something, as it was said, and what it says."""

    text: str
    cue: Cue


def statements(sentences: Sequence[str]) -> Iterator[SpokenStatement]:
    """What the sentences of one turn state."""
    before, listing, disagreed = "", False, False
    for sentence in sentences:
        plain = unlisted(sentence)
        said = unquoted(plain)
        listing = _opens_list(said) or (listing and is_listed(sentence))
        found = stated(said, disagreed=disagreed)
        if found is None and listing and is_listed(sentence) and may_be_kept(said):
            found = to_remember(said)
        if found is not None:
            yield SpokenStatement(plain, found)
        elif points_back(said) and before:
            yield SpokenStatement(before, to_remember(before))
        # What was kept already, or cannot be, is not pointed back at.
        before = plain if found is None and may_be_kept(said) else ""
        disagreed = disagreed or disagrees(said)


def candidates(
    found: Iterable[SpokenStatement], scope: str, session: str, metadata: Mapping[str, Any]
) -> list[NewFact | NewRule]:
    """The facts and rules that statements make; each says in which session it was stated."""
    made: list[NewFact | NewRule] = []
    for one in found:
        told = {**metadata, "stated_in": session, "stated": one.cue.kind.value}
        if one.cue.kind is CueKind.STANDING:
            rule = NewRule(one.text, scope, _TAGS, metadata=told, origin=Origin.USER)
            made.append(rule)
            continue
        subject, predicate = _key(one.cue)
        made.append(
            NewFact(
                subject,
                predicate,
                one.text,
                permanence=_PERMANENCE.get(one.cue.kind, Permanence.STANDARD),
                scope=scope,
                tags=_TAGS,
                metadata=told,
                confidence=STATED_CONFIDENCE,
                origin=Origin.USER,
            )
        )
    return made


def _key(cue: Cue) -> tuple[str, str]:
    """Whom or what it is about, and what it says of it."""
    if cue.kind is CueKind.NAME:
        return _USER, "name"
    if cue.kind in _PERMANENCE:
        return _USER, cue.about.casefold() or _topic(cue.rest)
    return _topic(cue.about or cue.rest), _PREDICATES[cue.kind]


def _topic(said: str) -> str:
    """The first words of what is said, enough to know it by."""
    words = _ARTICLE.sub("", said).split()[:_TOPIC_WORDS]
    return " ".join(words)[:_TOPIC_CHARACTERS].strip(" ,.;:!。，、：！") or said[:_TOPIC_CHARACTERS]


def _opens_list(said: str) -> bool:
    return asks_to_remember(said) and said.endswith((":", "："))
