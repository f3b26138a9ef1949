"""Cut a session into pieces that are found by themselves, without a language model.

Pieces are extracts: the user's words, what each answer says, what was settled, commands that failed
with what fixed them, and the files that were changed. Acknowledgements, announcements and
courtesies are none.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from butlers.kernel.secrets import masked
from butlers.kernel.text import normalise_whitespace
from butlers.memory.model import Origin, PieceKind
from butlers.memory.policy.decisions import ANSWERED, may_decide
from butlers.memory.policy.question import acknowledges
from butlers.memory.policy.statement_keys import statement_key
from butlers.sessions import cues, spoken
from butlers.sessions.decisions import Exchange, decisions
from butlers.sessions.echo import Echo
from butlers.sessions.failures import failures
from butlers.sessions.gist import gists, matches, pack, sentences_of, shorten
from butlers.sessions.pasted import Doubt, segments
from butlers.sessions.tool_calls import ToolCall
from butlers.sessions.transcripts import Transcript

_SAID, _MOST_SAID, _FEW_WORDS, _QUESTION = 600, 6, 100, 240
_HEAD, _TAIL = 40_000, 10_000
_MOST_FILES, _REQUEST = 20, 120
_FEW = 6
_TELLING = re.compile(r"[\d`\[]|\w[._/]\w|\b[A-Z]{2,}")
_DOCUMENT = 1_200
_TITLE = re.compile(r"^#{1,3} +(\S.*)$", re.MULTILINE)
_ASKING = ("?", "？", ":", "：")
UNSURE = {"unsure": True}
"""Details of a piece that may be typed or brought along."""
_WORD, _FEWEST_WORDS = re.compile(r"[\u3040-\u9fff]|[^\W_]{3,}|\d+"), 3


@dataclass(frozen=True, slots=True)
class NewPiece:
    """A piece of a session: its kind and text, when it was said, and details for its row."""

    kind: PieceKind
    text: str
    at: str
    details: dict[str, Any] = field(default_factory=dict)
    origin: Origin | None = None
    """The user for what they typed, a document for what they brought along."""


def pieces_of(transcript: Transcript) -> list[NewPiece]:
    """Return the pieces of a part of a session in the order in which they were said."""
    exchanges, echo = list(transcript.exchanges()), Echo(transcript.recalled)
    found = list(exchange_pieces(exchanges, echo))
    found += _decided(exchanges)
    for one in failures(transcript):
        details = {"command": one.command, "error": one.error, "fix": one.fix}
        found.append(NewPiece(PieceKind.FAILURE, one.text, one.at, details))
    found += _file_pieces(transcript.calls)
    return sorted(found, key=lambda piece: piece.at)


def _decided(exchanges: Sequence[Exchange]) -> Iterator[NewPiece]:
    """Yield what was settled; it is the user's where all of its sentences are."""
    typed = normalise_whitespace(" ".join(asked.text for asked, _ in exchanges))
    for text, at in decisions(exchanges):
        by_user = all(one in typed for one in spoken.sentences(text))
        yield NewPiece(PieceKind.DECISION, text, at, origin=Origin.USER if by_user else None)


def exchange_pieces(exchanges: Sequence[Exchange], echo: Echo) -> Iterator[NewPiece]:
    """Yield what was said and answered in each exchange; what was asked is in its answer."""
    question, seen = "", set[str]()
    for asked, answers in exchanges:
        said = [one for one in _words(asked.text, question) if not echo.covers(one.text)]
        said = [replace(one, at=asked.at) for one in said if one.text not in seen]
        words = [one.text for one in said]
        seen.update(words)
        replies = gists([answer.text for answer in answers], echo)
        if len(words) > 1 or (not replies and not _is_small_talk(words)):
            yield from said
        # An answer is found by what was asked, and a short question means little without it.
        asking = shorten(words[0], _SAID if len(words) == 1 else _REQUEST) if words else ""
        for text in replies:
            exchange = asking + ANSWERED + text if asking else text
            yield NewPiece(PieceKind.ANSWER, exchange, answers[-1].at)
            asking = shorten(asking, _REQUEST)
        question = _last_question(answers[-1].text) if answers else ""


def _is_small_talk(words: Sequence[str]) -> bool:
    """Whether a few words without names or numbers say nothing by themselves."""
    few = len(" ".join(words).split()) <= _FEW
    return few and not any(_TELLING.search(text) or _may_state(text) for text in words)


def _may_state(text: str) -> bool:
    """Whether a text may state something: by its words, or of a subject that it names."""
    return cues.may_state(text) or (may_decide(text) and not statement_key(text).is_plain)


def _words(turn: str, question: str) -> list[NewPiece]:
    """Return a user's words in one or more pieces; none for an acknowledgement or a command.

    A few words that answer a question come with it. What was brought along is in pieces of its own.
    """
    if len(turn) > _HEAD + _TAIL:
        turn = f"{turn[:_HEAD]}\n{turn[-_TAIL:]}"
    # Masked before it is cut: half a secret is not recognised.
    shown = spoken.without_printed(masked(turn).text)
    plain = normalise_whitespace(spoken.PASTED_NOTE.sub("", shown))
    if not any(map(str.isalnum, plain)) or acknowledges(plain) or matches("command", plain):
        return []
    if question and len(plain) <= _FEW_WORDS:
        return [NewPiece(PieceKind.SAID, f"[{question}] {plain}", "", origin=Origin.USER)]
    if len(_WORD.findall(plain)) < _FEWEST_WORDS and not plain.endswith("?"):
        return []
    return _pieces_of_turn(shown)


def _pieces_of_turn(shown: str) -> list[NewPiece]:
    """Return what was typed, what may be, and what was brought along, each in pieces."""
    own = spoken.doubted_sentences(shown)
    unsure = [one for one, doubt in own if doubt is Doubt.STRONG and not one.endswith(_ASKING)]
    sure = [one for one, _ in own if one not in unsure] + spoken.PASTED_NOTE.findall(shown)
    typed = _packed(sure)
    typed = typed if len(typed) <= _MOST_SAID else [*typed[:4], *typed[-(_MOST_SAID - 4) :]]
    pieces = [NewPiece(PieceKind.SAID, text, "", origin=Origin.USER) for text in typed]
    pieces += [NewPiece(PieceKind.SAID, text, "", UNSURE, Origin.USER) for text in _packed(unsure)]
    brought = _packed(_brought(shown))
    pieces += [NewPiece(PieceKind.SAID, one, "", origin=Origin.DOCUMENT) for one in brought]
    return pieces[: max(_MOST_SAID, len(typed) + 1)]


def _brought(shown: str) -> list[str]:
    """List the sentences that were brought along; of a long document its title alone."""
    texts = [one.text for one in segments(shown) if not one.is_typed]
    title = _TITLE.search("\n".join(texts)) if len(shown) > _DOCUMENT else None
    return [title[1]] if title else [one for text in texts for one in spoken.sentences(text)]


def _packed(sentences: Sequence[str]) -> list[str]:
    whole = map(normalise_whitespace, sentences)
    return pack((part for one in whole for part in _parts(one)), _SAID)


def _parts(sentence: str) -> Iterator[str]:
    """Divide a sentence that is too long for a piece between words."""
    while len(sentence) > _SAID:
        cut = sentence.rfind(" ", _SAID // 2, _SAID)
        cut = cut if cut > 0 else _SAID
        yield sentence[:cut]
        sentence = sentence[cut:].strip()
    yield sentence


def _last_question(answer: str) -> str:
    """Return the question that an answer ends with, "" if it asks none."""
    last = [one for one in sentences_of(answer[-3_000:])[-3:] if one.endswith("?")]
    return shorten(masked(last[-1]).text, _QUESTION) if last else ""


def _file_pieces(calls: Sequence[ToolCall]) -> Iterator[NewPiece]:
    """Yield one piece with the files that were changed."""
    edits = [call for call in calls if call.is_edit and not call.failed and call.files]
    files = list(dict.fromkeys(file for call in edits for file in call.files))
    if not files:
        return
    names = ", ".join(_relative(files)[:_MOST_FILES])
    more = f" and {len(files) - _MOST_FILES} more" if len(files) > _MOST_FILES else ""
    text = masked(f"Files changed: {names}{more}").text
    yield NewPiece(PieceKind.FILES, text, edits[-1].at, {"files": files[:_MOST_FILES]})


def _relative(files: Sequence[str]) -> list[str]:
    """Return files relative to the directory that they have in common."""
    absolute = [file for file in files if file.startswith("/")]
    common = os.path.commonpath([os.path.dirname(file) for file in absolute]) if absolute else "/"
    root = os.path.dirname(common) if len(common) > 1 else common
    return [os.path.relpath(file, root) if file.startswith("/") else file for file in files]
