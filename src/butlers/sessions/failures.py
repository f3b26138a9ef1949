"""Find the commands of a session that failed, their errors, and what fixed them."""

import re
import shlex
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from butlers.kernel.secrets import masked
from butlers.kernel.text import normalise_whitespace
from butlers.sessions.error_signature import error_lines, error_signature
from butlers.sessions.gist import is_filler, matches, sentences_of, shorten, weigh
from butlers.sessions.tool_calls import ToolCall
from butlers.sessions.transcripts import Speaker, Transcript, Utterance

_MOST, _AHEAD = 20, 60
"""Failures of a part, and calls after a failure in which its fix is looked for."""
_COMMAND, _ERROR, _FIX, _TEXT = 300, 300, 400, 900
_PREFIX = re.compile(
    r"^(?:(?:cd|pushd|export|source|set|unset|eval|\.)\s[^&;|]*(?:&&|;|$)\s*|\w+=\S*\s+"
    r"|(?:sudo|time|env|nice|exec|command|then|do|npx|bunx|uvx)\s+|timeout\s+(?:-\S+\s+)*\S+\s+"
    r"|(?:uv|poetry|pipenv|bundle|hatch|pdm|rye) (?:run|exec)\s+"
    r"|[^\s(]*python[\d.]*\s+-m\s+|\(\s*)+"
)
# Looking around fails often, and says nothing.
_LOOKS = re.compile(
    r"(?:ls|cat|head|tail|grep|e?grep|rg|ag|fd|find|sed|awk|echo|printf|pwd|which|type|test|\[|\[\["
    r"|wc|diff|cmp|sort|stat|file|tree|jq|true|false|sleep|kill|pkill|pgrep|ps|lsof|read|for|while|if"
    r"|git (?:diff|log|status|show|grep|branch|rev-parse|ls-files|blame|check-ignore))"
)
_WITH_SUBCOMMAND = re.compile(
    r"git|go|npm|yarn|pnpm|bun|cargo|docker(?:-compose)?|kubectl|make|just|task|pip3?|terraform|gh"
    r"|dotnet|mvn|gradlew?|rails|rake|php|composer|alembic|ruff|aws|gcloud|helm|deno|brew|apt(?:-get)?"
    r"|systemctl|uv|poetry|mix|swift|flutter"
)


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """A command that failed, the error's signature, and what fixed it; `text` tells it."""

    text: str
    at: str
    command: str
    error: str
    fix: str


def program_of(command: str) -> str:
    """Return the program and subcommand that a command runs, "" if it only looks around."""
    line = _PREFIX.sub("", command.strip().partition("\n")[0]).strip()
    line = re.split(r"&&|\|\||[|;]|\d?>", line, maxsplit=1)[0].rstrip()
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    if not words:
        return ""
    program = words[0].rpartition("/")[2]
    plain = [word for word in words[1:] if re.fullmatch(r"[a-z][\w:.-]*", word)]
    if plain and _WITH_SUBCOMMAND.fullmatch(program):
        more = 2 if plain[0] in ("run", "compose", "exec") else 1
        program = " ".join([program, *plain[:more]])
    return "" if _LOOKS.fullmatch(program) else program


def failures(transcript: Transcript) -> list[CommandFailure]:
    """Return the failures of a part whose fix or cause is known, each error once."""
    runs = [(call, program_of(call.summary)) for call in transcript.calls if not call.is_edit]
    found: dict[tuple[str, str], CommandFailure] = {}
    agent = [one for one in transcript.said if one.speaker is Speaker.AGENT]
    for number, (call, program) in enumerate(runs):
        if call.failed and program and len(found) < _MOST:
            error = error_signature(call.output)
            later = _next_without(error, program, runs[number + 1 : number + 1 + _AHEAD])
            failure = _failure(transcript, agent, call, error, later) if error else None
            if failure is not None:
                found[program, error] = failure  # the last time says what fixed it
    return list(found.values())


def _next_without(
    error: str, program: str, runs: Sequence[tuple[ToolCall, str]]
) -> ToolCall | None:
    """Return the next run of a program, unless it fails in the same way."""
    later = next((call for call, name in runs if name == program), None)
    if later is None or (later.failed and error_signature(later.output) == error):
        return None
    return later


def _failure(
    transcript: Transcript, agent: Sequence[Utterance], call: ToolCall, error: str,
    later: ToolCall | None,
) -> CommandFailure | None:  # fmt: skip
    between = list(_between(transcript.calls, call, later)) if later else []
    done = _deeds(between)
    words = _explanation(agent, call.at, later.at if later else "", causes_only=not done)
    if not done and not words:
        return None
    lines = shorten(masked(" / ".join(error_lines(call.output))).text, _ERROR)
    command = shorten(masked(normalise_whitespace(call.summary)).text, _COMMAND)
    fix = shorten(masked("; ".join(filter(None, [words, done]))).text, _FIX)
    how = "Fixed" if later else "Cause"
    text = shorten(f"`{shorten(command, 160)}` failed: {lines} {how}: {fix}", _TEXT)
    return CommandFailure(text, call.at, command, masked(error).text, fix)


def _between(calls: Sequence[ToolCall], call: ToolCall, later: ToolCall) -> Iterator[ToolCall]:
    first = calls.index(call) + 1
    for other in calls[first:]:
        if other is later:
            return
        if not other.failed:
            yield other


def _deeds(calls: Sequence[ToolCall]) -> str:
    """Say which files were edited and which commands were run."""
    edited = dict.fromkeys(file.rpartition("/")[2] for call in calls for file in call.files)
    runs = [call.summary for call in calls if not call.is_edit and program_of(call.summary)]
    ran = dict.fromkeys(f"`{shorten(normalise_whitespace(run), 100)}`" for run in runs)
    parts = [f"edited {', '.join(list(edited)[:5])}"] if edited else []
    return "; ".join([*parts, *([f"ran {', '.join(list(ran)[:3])}"] if ran else [])])


def _explanation(agent: Sequence[Utterance], since: str, until: str, *, causes_only: bool) -> str:
    """Return the agent's sentence after a failure that says most about it."""
    first = bisect_right(agent, since, key=lambda one: one.at)
    last = bisect_left(agent, until, key=lambda one: one.at) + 1 if until else first + 2
    texts = [one.text[:4_000] for one in agent[first : min(last, first + 6)]]
    sentences = [one for text in texts for one in sentences_of(text)]
    telling = [
        one
        for one in sentences
        if not one.endswith("?") and (matches("cause", one) or not (causes_only or is_filler(one)))
    ]
    best = max(telling, key=lambda one: weigh(one) + 2 * bool(matches("cause", one)), default="")
    return shorten(best, 260) if best and weigh(best) >= 1.0 else ""
