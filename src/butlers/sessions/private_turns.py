"""Leave what is private out of a transcript: whole turns with their answers, and marked spans.

A transcript is read twice, since a request may cover turns before it.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from butlers.kernel.private_tags import has_private, map_texts, without_private
from butlers.sessions.privacy import ANY_SESSION, STARTING, WHOLLY, PrivacyRules, find_rules
from butlers.sessions.privacy_words import PrivacyRequest, find_request
from butlers.sessions.prompts import lines_of, may_hold_prompt, parse_record, prompt_of, texts_of

_TIMESTAMP = re.compile(r'"timestamp":\s*"([^"]{10,40})"')
Lines = Callable[[], Iterable[str]]
"""Reads the lines of a transcript, each time from the beginning."""


@dataclass(slots=True)
class _Turns:
    """The turns of a transcript by their first line; turn 0 is what comes before them."""

    starts: list[int] = field(default_factory=list)
    private: list[bool] = field(default_factory=lambda: [False])
    tagged: set[int] = field(default_factory=set)
    off_record: bool = False

    def begin(self, number: int, prompt: str) -> None:
        """Add a turn that begins with a prompt in a line."""
        request = find_request(without_private(prompt))
        self.starts.append(number)
        if request is PrivacyRequest.SESSION:
            self.private = [True] * len(self.private)
        elif request is PrivacyRequest.LAST:
            self.private[-1] = True
        self.off_record |= request in STARTING
        self.off_record &= request is not PrivacyRequest.RESUME
        self.private.append(self.off_record or request in WHOLLY)
        if has_private(prompt):
            self.tagged.add(number)

    def turn_of(self, number: int) -> int:
        """Return the turn that a line belongs to."""
        return bisect_right(self.starts, number)


def redact(lines: Lines, rules: PrivacyRules = ANY_SESSION) -> Iterator[str]:
    """Yield the lines of a transcript without private turns and private spans of prompts."""
    if rules.is_ignored:
        return
    turns = _read_turns(lines(), rules)
    tagged_turns = {turns.turn_of(number) for number in turns.tagged}
    for number, line in enumerate(lines()):
        turn = turns.turn_of(number)
        if turns.private[turn] or _is_covered(line, rules):
            continue
        if number in turns.tagged:
            yield _without_spans(line)
        elif turn not in tagged_turns:
            yield line


def entry_lines(home: str, entry: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the lines of a spooled session's transcript that may be stored."""
    cwd, project = str(entry.get("cwd") or ""), entry.get("project")
    project = project if isinstance(project, dict) else None
    rules = find_rules(home, str(entry.get("session") or ""), cwd, project)
    return redact(partial(lines_of, path), rules)


def write_redacted(home: str, entry: Mapping[str, Any], write: Callable[[bytes], object]) -> None:
    """Write what may be stored of a session: messages and calls of its public turns."""
    for line in entry_lines(home, entry, entry["path"]):
        if _is_of_the_conversation(parse_record(line)):
            write(line.encode())


def _read_turns(lines: Iterable[str], rules: PrivacyRules) -> _Turns:
    turns = _Turns()
    for number, line in enumerate(lines):
        record = parse_record(line) if rules.files or may_hold_prompt(line) else {}
        prompt = prompt_of(record)
        if prompt is not None:
            turns.begin(number, prompt)
            turns.private[-1] |= _is_covered(line, rules)
        if rules.files and any(map(rules.matches, texts_of(_content(record)))):
            turns.private[-1] = True
    return turns


def _content(record: dict[str, Any]) -> Any:
    """Return what was said or done in a record, without what its program notes of itself."""
    return [record.get(key) for key in ("message", "payload", "attachment", "toolUseResult")]


def _is_covered(line: str, rules: PrivacyRules) -> bool:
    if not rules.windows:
        return False
    at = _TIMESTAMP.search(line)
    return at is not None and rules.covers(at[1])


def _without_spans(line: str) -> str:
    """Return a prompt's line without private spans, wherever its record repeats them."""
    return json.dumps(map_texts(json.loads(line), without_private)) + "\n"


def _is_of_the_conversation(record: dict[str, Any]) -> bool:
    """Whether a record is a message or a call, and no summary, which may repeat anything."""
    if isinstance(record.get("payload"), dict):
        return record.get("type") == "response_item"
    if record.get("isCompactSummary"):
        return False
    attachment = record.get("attachment")
    is_context = (
        isinstance(attachment, dict) and attachment.get("type") == "hook_additional_context"
    )
    return record.get("type") in ("user", "assistant") or is_context
