"""Readers of a caller's text that take more than a text: records, transcripts, JSON, events."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from butlers.errors import ButlersError
from butlers.kernel import private_tags, secrets, text
from butlers.kernel.json_values import brief, is_deeper, json_value
from butlers.kernel.mentions import Mentions, texts_in
from butlers.llm.envelopes import parse_object
from butlers.memory.model import NewEpisode, NewFact, NewRule
from butlers.memory.policy import inputs, spoken_window
from butlers.memory.policy.conflict_rules import ComparedFact, Nearness, compare
from butlers.memory.policy.excerpt import ExcerptOf, excerpt
from butlers.memory.policy.validity import OPEN
from butlers.memory.settings import MemoryModuleConfig
from butlers.portability import readers as importers
from butlers.portability.conversations import read as read_conversation
from butlers.portability.pam import read_pam
from butlers.sessions import essence, failures, pieces, private_turns, transcripts
from butlers.sessions.agent_calls import read_call
from butlers.sessions.echo import Echo
from butlers.sessions.ignore_file import IgnoreRules, bounded
from butlers.sessions.verdicts import Exchange, judge

_SETTINGS = MemoryModuleConfig()
_AT = "2026-05-04T12:00:00Z"
_NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
_KNOWN = Echo(["- [Ann] [allergy]: peanuts; carries an EpiPen (confidence: 1.00)"])


def _checked(new: Any) -> object:
    with suppress(ButlersError):
        return inputs.checked_new(new, _SETTINGS)
    return None


def _session(given: str) -> transcripts.Transcript:
    """A session in which a user, an agent and a failed command say something."""
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": given}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": given, "is_error": True}
    messages = [("user", given), ("assistant", [call]), ("user", [result]), ("assistant", given)]
    return transcripts.parse(
        "\n".join(
            json.dumps({"type": who, "timestamp": _AT, "message": {"role": who, "content": said}})
            for who, said in messages
        )
    )


def _compared(given: str) -> object:
    older = ComparedFact("server", "status", given)
    return compare(older, ComparedFact("server", "status", f"un{given}"), Nearness(1.0, 0.9))


def _words_of(given: str) -> str:
    """As many different words as its length allows."""
    return " ".join(f"{given[:3].strip()}w{number}" for number in range(len(given) // 6))


def _given(make: Callable[[str], Any], read: Callable[[Any], Any]) -> Callable[[str], object]:
    def called(given: str) -> object:
        with suppress(ButlersError, ValueError, RecursionError):
            found = read(make(given))
            return list(found) if hasattr(found, "__next__") else found
        return None

    return called


def _nested(given: str) -> Any:
    return {"a": [given, {"b": given[:100]}], given[:50]: [[[given]]]}


MORE_READERS: dict[str, Callable[[str], object]] = {
    "an episode": _given(lambda given: NewEpisode(given, "general"), _checked),
    "a fact": _given(lambda given: NewFact("Ann", "likes", given[:20_000]), _checked),
    "a fact's keys": _given(lambda given: NewFact(given, given, "tea"), _checked),
    "a rule": _given(lambda given: NewRule(given[:20_000]), _checked),
    "metadata": _given(_nested, lambda value: inputs.checked_document("m", value, "mask")),
    "keys of metadata": _given(
        lambda given: {f"{given[:9]}{n}": n for n in range(len(given) // 10)},
        lambda value: inputs.checked_document("m", value, "mask"),
    ),
    "private arguments": _given(_nested, private_tags.public_arguments),
    "a private argument": _given(
        lambda given: {"content": f"private {given}"}, private_tags.public_arguments
    ),
    "clean JSON": _given(_nested, text.clean_json),
    "masked JSON": _given(_nested, lambda value: secrets.admitted_json("mask", "m", value)),
    "marks": _given(_nested, secrets.count_marks),
    "brief": _given(_nested, lambda value: brief(json_value(value))),
    "depth": _given(_nested, lambda value: is_deeper(value, 64)),
    "names": _given(_nested, lambda value: Mentions(["Ann Lee"]).in_value(value)),
    "texts": _given(_nested, lambda value: list(texts_in(value))),
    "a window": lambda given: spoken_window.dated(NewFact("Ann", "job", given), _NOW) or OPEN,
    "two facts": _compared,
    "facts of many words": lambda given: _compared(_words_of(given)),
    "an excerpt": lambda given: excerpt(given, ExcerptOf(given.split()[:8], 0)),
    "a line of JSON": parse_object,
    "a transcript": lambda given: transcripts.parse(given),
    "a session": _session,
    "an essence": lambda given: essence.of_transcript(_session(given)),
    "pieces": lambda given: pieces.pieces_of(_session(given)),
    "failures": lambda given: failures.failures(_session(given)),
    "private turns": lambda given: list(private_turns.redact(lambda: given.split("\n"))),
    "an echo": _KNOWN.without,
    "an echo of it": lambda given: Echo([given]).without(given),
    "a verdict": lambda given: judge(f"- {given}", "1f0c9a77", Exchange(given, given, (given,))),
    "a tool call": lambda given: read_call(
        {"tool_input": {"command": given}, "tool_response": {"stdout": given, "exit_code": 1}}
    ),
    "an ignore pattern": _given(lambda given: given[:300], bounded),
    "ignored files": lambda given: IgnoreRules("/").matches(given, "/"),
    "a conversation": _given(
        lambda given: {
            "uuid": "1",
            "chat_messages": [{"sender": "human", "text": given, "created_at": _AT}],
        },
        lambda value: read_conversation("claude", value),
    ),
    "portable memories": _given(
        lambda given: {"memories": [{"id": "1", "content": given, "type": given}]},
        lambda value: list(read_pam(value, "general")),
    ),
    "a graph": _given(
        lambda given: json.dumps(
            {"type": "entity", "entityType": "x", "name": given[:90], "observations": [given]}
        ).encode(),
        importers._graph_line,
    ),
    "a line of a note": importers._STATEMENT.match,
}
