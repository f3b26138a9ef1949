"""What is told around a tool call of an agent: rules about the command or file, known fixes."""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from operator import itemgetter
from uuid import UUID

from butlers.auth.rights import Caller
from butlers.db.postgres import Row
from butlers.kernel.lru import LRUCache
from butlers.kernel.token_count import count_tokens
from butlers.memory.model import MemoryType
from butlers.memory.operations import OperationContext
from butlers.memory.policy.context import NOTICE, episode_line, fact_line, rule_line
from butlers.memory.policy.trust import apart, low_trust_room, reservations
from butlers.memory.store import gotchas
from butlers.sessions.agent_calls import AgentCall, digest, failure_keys
from butlers.sessions.command_names import (
    PROGRAMS,
    is_named,
    is_named_file,
    keys_of_call,
    keys_of_text,
    named_commands,
    named_files,
    simple_commands,
)
from butlers.sessions.error_match import LEAST_OVERLAP, most_alike
from butlers.sessions.fail_open import forgiven
from butlers.sessions.injections import Delivery, InjectedLine, Injection
from butlers.sessions.session import OpenMemory

MAX_TOKENS = 120
"""How long what is told about one call may be, in tokens."""
_MAX_CHARACTERS, _MAX_TEXT_TOKENS = 320, 60
_MAX_GOTCHAS, _MAX_FAILURES, _MOST_LINES = 2_000, 1_000, 8
_REMEMBERED_SESSIONS, _REMEMBERED_MS = 256, 86_400_000
ABOUT_CALL = "Remembered about this. "
ABOUT_ERROR = "This error was seen before. "
# What may name a command or a file at all.
_ANY_NAME = rf"`|/|\w\.\w|\*|\s--?\w|\m({'|'.join(map(re.escape, sorted(PROGRAMS)))})\M"
# A fact or decision that only mentions a command says nothing about using it.
_CAUTION = re.compile(
    r"\b(?:never|always|must|mustn't|don't|do not|not|only|first|before|after|needs?|requires?"
    r"|instead|rather|avoid|careful|breaks?|fails?|forbidden|use|run|with|without|edit"
    r"|nie|niemals|immer|muss|müssen|nicht|nur|zuerst|vorher|braucht|statt|nur mit|ohne"
    r"|jamais|toujours|doit|avant|nunca|siempre|debe|antes)\b",
    re.IGNORECASE,
)


class ToolMemory:
    """One butler's memory as it is told around tool calls; each memory once per session."""

    def __init__(self, butler: str, memory: OpenMemory, seconds: float) -> None:
        self._butler, self._memory, self._seconds = butler, memory, seconds
        self._injected = LRUCache[set[UUID]](_REMEMBERED_SESSIONS, _REMEMBERED_MS)

    async def before_call(self, session: str, call: AgentCall, caller: Caller) -> Injection:
        """Return rules, facts and decisions that name the command or a file of a call."""

        async def found() -> Injection:
            rows = await self._find_gotchas(caller, _pattern(call))
            others, low = apart((row for row in rows if is_about(row, call)), itemgetter("trust"))
            # Low trust never stands alone where the session knows better already.
            if not {row["id"] for row in others} & (self._injected.get(session) or set()):
                others += low[: low_trust_room(len(others), _MOST_LINES)]
            return self._once(session, ABOUT_CALL, map(gotcha_line, others))

        return await self._forgiven(found) if call.command or call.files else Injection()

    async def after_call(
        self, session: str, call: AgentCall, caller: Caller, *, failed: bool
    ) -> Injection:
        """Return the newest fix of a call's error; unless it `failed` surely, of the very error."""

        async def found() -> Injection:
            least = LEAST_OVERLAP if failed else 1.0
            for rows in apart(await self._find_failures(caller), itemgetter("trust")):
                if best := most_alike(rows, call.error, call.command, least):
                    return self._once(session, ABOUT_ERROR, [failure_line(best)])
            return Injection()

        return await self._forgiven(found) if call.error else Injection()

    async def digest(self, caller: Caller) -> str:
        """Return the hashes of all commands, files and errors that something is known about."""

        async def found() -> str:
            keys: set[str] = set()
            for row in await self._find_gotchas(caller, _ANY_NAME):
                keys |= keys_of_text(_text(row))
            for row in await self._find_failures(caller):
                keys |= failure_keys(row["error"], row["command"] or "")
            return digest(keys)

        return await forgiven("digest for hooks", found, otherwise="", seconds=self._seconds)

    async def _forgiven(self, found: Callable[[], Awaitable[Injection]]) -> Injection:
        none, seconds = Injection(), self._seconds
        return await forgiven("memories for a tool call", found, otherwise=none, seconds=seconds)

    async def _find_gotchas(self, caller: Caller, pattern: str) -> Sequence[Row]:
        ctx = OperationContext.of(await self._memory(), caller)
        memory, scope = ctx.memory, await ctx.seen(self._butler, "butler")
        least = memory.settings.facts.retrieval_confidence_threshold
        how = {"now": memory.now(), "scope": scope, "pattern": pattern, "least": least}
        async with memory.transaction(ctx.lineage) as tx:
            return await gotchas.find_gotchas(tx, **how, limit=_MAX_GOTCHAS)

    async def _find_failures(self, caller: Caller) -> Sequence[Row]:
        ctx = OperationContext.of(await self._memory(), caller)
        scope = await ctx.seen(self._butler, "butler")
        how = {"now": ctx.memory.now(), "scope": scope, "limit": _MAX_FAILURES}
        async with ctx.memory.transaction(ctx.lineage) as tx:
            return await gotchas.find_failures(tx, **how)

    def _once(self, session: str, about: str, lines: Iterable[InjectedLine]) -> Injection:
        """Return the lines that fit, without those that the session has."""
        before = self._injected.get(session) or set()
        injection = fitting(about, [line for line in lines if line.id not in before])
        self._injected.set(session, before.union(injection.ids))
        return injection


def fitting(about: str, lines: Iterable[InjectedLine]) -> Injection:
    """Return as many of the lines as fit after a heading; nothing if none does."""
    text, included = about + NOTICE, list[InjectedLine]()
    for line in lines:
        if count_tokens(text + line.text) <= MAX_TOKENS:
            text, included = text + line.text, [*included, line]
    if not included:
        return Injection()
    tokens = count_tokens(text)
    return Injection(text, tuple(included), tokens=tokens, outcome=Delivery.DELIVERED)


def _pattern(call: AgentCall) -> str:
    """Return a pattern that every text naming the call matches."""
    keys = keys_of_call(call.command, call.files)
    words = {word.rstrip("/") for key in keys for word in key.split()[:1]} - {"", "*"}
    named = "|".join(map(re.escape, sorted(words)))
    return rf"(?:^|\W)(?:{named})(?:\W|$)" + (r"|\*" if call.files else "")


def _text(row: Row) -> str:
    return " ".join(filter(None, (row["subject"], row["predicate"], row["content"])))


def is_about(row: Row, call: AgentCall) -> bool:
    """Whether a memory names the command or a file of a call, and says something about it."""
    text = _text(row)
    if row["memory_type"] != "rule" and not _CAUTION.search(text):
        return False
    commands, files = named_commands(text), named_files(text)
    return any(
        is_named(words, named) for words in simple_commands(call.command) for named in commands
    ) or any(is_named_file(file, named) for file in call.files for named in files)


def gotcha_line(row: Row) -> InjectedLine:
    """Render a rule, fact or decision as in a context."""
    content, origin = _cut(row["content"]), reservations(row)
    if row["memory_type"] == "rule":
        text = rule_line(content, row["maturity"], row["effectiveness_score"], origin=origin)
    elif row["memory_type"] == "fact":
        named = row["subject"], row["predicate"]
        text = fact_line(*named, content, row["effective_confidence"], origin=origin)
    else:
        text = episode_line(content, row["said_at"], origin=origin)
    return InjectedLine(MemoryType(row["memory_type"]), row["id"], text)


def failure_line(row: Row) -> InjectedLine:
    """Render what fixed a failure, or else its cause."""
    what = "Its cause" if " Cause: " in row["content"] else "What fixed it"
    said = f"`{row['command'][:80]}` failed like this. {what}: {_cut(row['fix'])}"
    text = episode_line(said, row["said_at"], origin=reservations(row))
    return InjectedLine(MemoryType.EPISODE, row["id"], text)


def _cut(text: str) -> str:
    """Shorten a text until it leaves room for the rest of its line."""
    short = text[:_MAX_CHARACTERS]
    while count_tokens(short) > _MAX_TEXT_TOKENS:
        short = short[: len(short) * 3 // 4]
    return text if short == text else f"{short.rstrip()}…"
