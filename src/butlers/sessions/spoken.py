"""Find a user's own sentences in a turn, without what was pasted, and what they state."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from butlers.memory.model import NewFact, NewRule, Origin, Permanence
from butlers.memory.policy.statement_keys import USER, statement_key
from butlers.sessions import cues
from butlers.sessions.cues import Cue, CueKind
from butlers.sessions.pasted import PASTED_NOTE as PASTED_NOTE
from butlers.sessions.pasted import Doubt, doubts, is_risky, segments, typed_runs

_FENCED = re.compile(
    r"^[ \t]*(```|~~~)[^\n]*\n.*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
# Lines that programs write: logs, traces, prompts, diffs; and indented code.
_MACHINE = re.compile(
    r"\s*\[?\d{4}-\d\d-\d\d[T ]|\s*\[?\d\d:\d\d:\d\d|\w{3} +\d+ \d\d:\d\d"
    r"|\s*(?:at |File \"|Traceback |Caused by:|\.{3} \d+ more|#\d+ |goroutine )"
    r"|.*\b(?:ERROR|WARN|WARNING|INFO|DEBUG|TRACE|FATAL|E\d{4})\b"
    r"|(?:\$|%|>>>|\+\+\+|---|@@|diff |index |[+-](?=\S|\s{2,})) ?\S|(?: {4}|\t)\s*\S"
)
# Instructions of a skill or a role, which an agent puts into a turn and nobody typed.
_INSTRUCTIONS = re.compile(r"\s*(?:Base directory for this skill:|You are an? (?s:.{600}))")
_SIGN = re.compile(r"[{}()\[\];=<>|\\/_$&*^~\"'`:,.+\d-]")
_MUCH = 0.3
_SHORTEST_RUN, _LONGEST_WORDLESS, _WRAPPED, _ABBREVIATION = 3, 400, 60, 12
_QUOTED = re.compile(
    r"`[^`\n]+`|\"[^\"\n]{1,400}\"|“[^“”\n]+”|„[^„“”\n]+[“”]|«[^«»\n]+»|「[^「」\n]+」|『[^『』\n]+』"
)
_ABBREVIATED = re.compile(
    r"(?:\b(?:Mrs?|Ms|Dr|Dra|St|Prof|Sra?|Mme|Mlle|vs|approx|ca|bzw|usw|inkl|Nr|Str|etc|tel|ext"
    r"|г|ул|им|стр|(?-i:[A-ZА-Я]))|\b(?:e\.g|i\.e|z\.B|d\.h|u\.a|т\.е|т\.д))\.$",
    re.IGNORECASE,
)
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*(?=\s)|[。！？]+[」』”）]*|\n")
_LISTED = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]+")


def without_pasted(text: str) -> str:
    """Replace every block of code, log or trace in a turn by its length."""
    text = _FENCED.sub(lambda block: _noted(block[0].strip("\n").split("\n")), text)
    lines: list[str] = []
    run: list[str] = []
    for line in text.split("\n"):
        if _is_machine(line) or (run and not line.strip()):
            run.append(line)
        else:
            lines += [*_shortened(run), line]
            run = []
    return "\n".join([*lines, *_shortened(run)]).strip()


# What a terminal or a compiler printed, a line of code, or of a change.
_PRINTED = re.compile(
    r"\s*(?:\[?\d{2,4}[/-]\d\d[/-]\d{2,4}|\S+:\d+(?::\d+)?:|\S+[$%❯] \S|//|/\*|@@|\+[ \t_#]?\S"
    r"|<!--|</?\w|[\w.]+\(.*\)[;,]?$|\w+ = \S|\d+ (?:issues?|errors?|passed|failed|warnings?)\b"
    r"|(?:func|def|class|const|var|import|return|export|public|private|type|package) .*[({;\w]$"
    r"|(?:if|for|while|else|switch|try)\b.*[{:]$|[#>] \S.*\S = |[})\]]+[;,]?$"
    r"|[\u2190-\u2bff\U0001f300-\U0001faff])|.*[{};]\s*$"
)
_IMAGE = re.compile(r"\[Image[^\]\n]*\]")


def without_printed(text: str) -> str:
    """Return a turn without pictures, pasted blocks, and paragraphs that a program printed."""
    paragraphs = re.split(r"\n[ \t]*\n", _IMAGE.sub("", without_pasted(text)))
    return "\n\n".join(filter(None, map(_typed_lines, paragraphs)))


def _typed_lines(paragraph: str) -> str:
    lines = paragraph.split("\n")
    typed = [line for line in lines if _LISTED.match(line) or not _PRINTED.match(line)]
    is_own = bool(typed) and lines[0] is typed[0]
    if is_own and 2 * len(typed) > len(lines):
        return "\n".join(typed)
    # Of what was printed only a first line that announces it was typed.
    return lines[0] if is_own and len(lines) > 1 else ""


def unlisted(sentence: str) -> str:
    """Return a sentence without its bullet or number."""
    return _LISTED.sub("", sentence)


def own_sentences(text: str) -> list[str]:
    """List the sentences that the user typed: nothing quoted, pasted or announced."""
    return [sentence for sentence, _ in doubted_sentences(text)]


def doubted_sentences(text: str) -> list[tuple[str, Doubt]]:
    """List the sentences that the user typed, each with how uncertain that is."""
    if _INSTRUCTIONS.match(text):
        return []
    found = segments(without_pasted(text))
    runs = [(number, PASTED_NOTE.sub("\n", run)) for number, run in typed_runs(found)]
    own = [(number, one) for number, run in runs for one in sentences(run)]
    return list(zip((one for _, one in own), doubts(found, own), strict=True))


def sentences(text: str) -> list[str]:
    """List the sentences of a text; what is quoted is not divided."""
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    start, found = 0, list[str]()
    for end in _END.finditer(text):
        if not _goes_on(text, start, end) and not any(a < end.end() < b for a, b in quoted):
            found.append(text[start : end.end()].strip())
            start = end.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if any(map(str.isalnum, sentence))]


def _goes_on(text: str, start: int, end: re.Match[str]) -> bool:
    """Whether a sentence goes on after this: it is an abbreviation, or a line was wrapped."""
    if end[0] == "\n" and end.start() - text.rfind("\n", 0, end.start()) <= _WRAPPED:
        return False
    if end[0][-1] in "\n\"'”’»)]":
        return re.match(r"\s?[a-zà-ÿа-я]", text[end.end() : end.end() + 2]) is not None
    before = text[max(start, end.end() - _ABBREVIATION) : end.end()]
    return end[0] == "." and _ABBREVIATED.search(before) is not None


def _is_machine(line: str) -> bool:
    if _LISTED.match(line):
        return False
    if _MACHINE.match(line):
        return True
    words = line.replace(" ", "")
    signs = len(_SIGN.findall(words))
    # A long line without spaces; only ASCII counts, for some scripts do without them.
    longest = max(map(len, re.findall(r"[!-~]+", line)), default=0)
    is_wordless = len(line) > _LONGEST_WORDLESS and longest > len(line) // 2
    return len(words) > 2 and (signs > len(words) * _MUCH or is_wordless)


def _shortened(run: list[str]) -> list[str]:
    """Return a run of lines if it is short, else a note of its length."""
    written = [line for line in run if line.strip()]
    if len(written) >= _SHORTEST_RUN or sum(map(len, written)) > _LONGEST_WORDLESS:
        return [_noted(written), ""]
    return run


def _noted(lines: list[str]) -> str:
    return f"[{len(lines)} lines pasted]" if len(lines) > 1 else "[a line pasted]"


STATED_CONFIDENCE = 0.5
"""Confidence of a fact that was extracted without a model, until it is confirmed."""

_TAGS = ("stated",)
_PERMANENCE = dict.fromkeys((CueKind.NAME, CueKind.IDENTITY, CueKind.PREFERENCE), Permanence.STABLE)
"""Statements of users about themselves stay true longer than others."""


@dataclass(frozen=True, slots=True)
class SpokenStatement:
    """A sentence as it was said, and what it states."""

    text: str
    cue: Cue
    doubt: Doubt = Doubt.NONE

    @property
    def waits(self) -> bool:
        """Whether a person must say that the user stated it: it may be somebody else's."""
        asks_for_action = self.cue.kind is CueKind.STANDING or is_risky(self.text)
        return self.doubt is Doubt.STRONG or (self.doubt is Doubt.SOME and asks_for_action)


def statements(sentences: Sequence[str]) -> Iterator[SpokenStatement]:
    """Yield what the sentences of one turn state."""
    before, listing, disagreed = "", False, False
    for sentence in sentences:
        plain = unlisted(sentence)
        text, is_item = _QUOTED.sub("…", plain), plain != sentence
        opens_list = cues.asks_to_remember(text) and text.endswith((":", "："))
        listing = opens_list or (listing and is_item)
        cue = cues.stated(text, disagreed=disagreed)
        if cue is None and listing and is_item and cues.may_be_kept(text):
            cue = cues.to_remember(text)
        if cue is not None:
            yield SpokenStatement(plain, cue)
        elif cues.points_back(text) and before:
            yield SpokenStatement(before, cues.to_remember(before))
        # "Remember that" means the sentence before, unless it was kept already or cannot be.
        before = plain if cue is None and cues.may_be_kept(text) else ""
        disagreed = disagreed or cues.disagrees(text)


def candidates(
    found: Iterable[SpokenStatement], scope: str, session: str, metadata: Mapping[str, Any]
) -> list[NewFact | NewRule]:
    """Make the facts and rules of statements; each names the session it was stated in."""
    return [_memory(statement, scope, session, metadata) for statement in found]


def _memory(
    statement: SpokenStatement, scope: str, session: str, metadata: Mapping[str, Any]
) -> NewFact | NewRule:
    text, kind = statement.text, statement.cue.kind
    about = {**metadata, "stated_in": session, "stated": kind.value}
    if kind is CueKind.STANDING:
        return NewRule(text, scope, _TAGS, metadata=about, origin=Origin.USER)
    return NewFact(
        *_key(statement.cue),
        text,
        permanence=_PERMANENCE.get(kind, Permanence.STANDARD),
        scope=scope,
        tags=_TAGS,
        metadata=about,
        confidence=STATED_CONFIDENCE,
        origin=Origin.USER,
    )


def _key(cue: Cue) -> tuple[str, str]:
    """Return the subject and predicate of a statement, plain where its grammar does not say."""
    if cue.kind is CueKind.NAME:
        return USER, "name"
    key = statement_key(cue.rest)
    if key.is_plain and cue.kind in _PERMANENCE:
        return USER, cue.about.casefold() or key.predicate
    return key.subject, key.predicate
