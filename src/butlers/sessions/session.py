"""Contexts that sessions get from a butler's memory, and the episodes they store."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import PurePath
from typing import Any
from uuid import UUID

from butlers.auth.rights import Caller
from butlers.kernel.lru import LRUCache
from butlers.kernel.token_count import count_tokens
from butlers.memory.flows.consolidation.answer import count_unread
from butlers.memory.flows.history import stored_by
from butlers.memory.flows.inbox import count_waiting
from butlers.memory.flows.prompt_context import PromptQuery, build_prompt_context
from butlers.memory.handle import Memory
from butlers.memory.model import Trust
from butlers.memory.operations import OperationContext
from butlers.memory.operations.retrieval import ContextInput, context
from butlers.memory.policy.context import Block
from butlers.sessions import essence
from butlers.sessions.essence import store_essence, store_session
from butlers.sessions.fail_open import forgiven
from butlers.sessions.injections import (
    Delivery,
    Injection,
    as_injection,
    find_given,
    prompt_injection,
    usefulness,
)
from butlers.sessions.judgement import judge_session
from butlers.sessions.piece_storage import store_missing_pieces
from butlers.sessions.references import text_referred_to
from butlers.sessions.transcripts import parse

STORING_SECONDS = 30.0
_COUNTING_SECONDS = 2.0
TRANSCRIPT_SECONDS = 300.0
"""How long a long session may take, for which nobody waits."""

PREFACE = "Remembered from earlier sessions; more is found with the memory tools.\n"
EMBEDDING_SECONDS = 0.6
"""How long a prompt waits for its vector before its words must do."""
_REMEMBERED_SESSIONS, _REMEMBERED_MS = 256, 86_400_000


CONTEXT_SECONDS = 10.0
"""How long a session waits for its memories before it starts without them."""
OpenMemory = Callable[[], Awaitable[Memory]]


class SessionMemory:
    """One butler's memory as sessions use it: a failure never stops the session."""

    def __init__(
        self,
        butler: str,
        memory: OpenMemory,
        context_seconds: float,
        invitation: str = "",
        list_aside: Callable[[str], Sequence[Any]] = lambda butler: (),
    ) -> None:
        """Take the `invitation` that an agent gets if episodes wait and no model reads them.

        `list_aside` lists the sessions of a butler that could not be stored.
        """
        self._invitation = invitation
        self._list_aside = list_aside
        self._butler = butler
        self._memory = memory
        self._context_seconds = context_seconds
        self._injected = LRUCache[set[str]](_REMEMBERED_SESSIONS, _REMEMBERED_MS)

    async def context(self, prompt: str, caller: Caller) -> Injection | None:
        """Build the context of a prompt; None if memory fails or takes too long."""

        async def built() -> Injection:
            asked = ContextInput(trigger_prompt=prompt, butler=self._butler)
            found = await context.execute(await self._operation_context(caller), asked)
            if not found.recalled and "\n## " not in found.text:
                return Injection()
            return as_injection(found.text, found)

        seconds = self._context_seconds
        return await forgiven("context of a session", built, otherwise=None, seconds=seconds)

    async def opening(self, session: str, caller: Caller) -> Injection | None:
        """Build the context of a session that starts, short enough for an agent to take whole.

        None if memory fails or takes too long.
        """

        async def built() -> Injection:
            ctx = await self._operation_context(caller)
            waiting = await self._to_decide(ctx) + await self._waiting(ctx)
            spent = count_tokens(PREFACE + waiting)
            budget = max(0, ctx.memory.settings.context.start_tokens - spent)
            asked = ContextInput(
                trigger_prompt="", butler=self._butler, token_budget=budget, opening=True
            )
            found = await context.execute(ctx, asked)
            shown = _memories_in(found.block)
            self._injected.set(session, {str(id) for id in shown})
            text = waiting + PREFACE + found.text if shown else waiting
            return as_injection(text, found)

        seconds = self._context_seconds
        return await forgiven("opening of a session", built, otherwise=None, seconds=seconds)

    async def relevant(
        self, session: str, prompt: str, caller: Caller, last_answer: str = ""
    ) -> Injection:
        """Build the context of a prompt from memories the session does not have; often empty.

        A prompt that points to the agent's last answer is looked up by what it points to.
        """

        async def built() -> Injection:
            ctx = await self._operation_context(caller)
            known = self._injected.get(session)
            if known is None:  # another process gave it something, or this one before a restart
                known = await find_given(ctx, session)
                self._injected.set(session, known)
            query = PromptQuery(
                text_referred_to(prompt, last_answer) or prompt,
                await ctx.seen(self._butler, "butler"),
                ctx.memory.settings.context.prompt_tokens - count_tokens(PREFACE),
                frozenset(map(UUID, known)),
                EMBEDDING_SECONDS,
                partial(usefulness, ctx, prompt=prompt),
            )
            found = await build_prompt_context(ctx.memory, query, ctx.lineage)
            shown = _memories_in(found.block)
            if not shown:
                return prompt_injection("", found, query.exclude)
            self._injected.set(session, known | {str(id) for id in shown})
            return prompt_injection(PREFACE + found.block.text, found, query.exclude)

        seconds = self._context_seconds
        failed = Injection(outcome=Delivery.FAILED)
        return await forgiven("memories for a prompt", built, otherwise=failed, seconds=seconds)

    async def remember_exchange(
        self, session: UUID, prompt: str, answer: str, told: str, caller: Caller
    ) -> UUID | None:
        """Store one question and its answer; the episode, or None when there is none."""
        found = essence.of_exchange(prompt, answer, [told])
        if found is None:
            return None

        async def stored() -> UUID | None:
            ctx = await self._operation_context(caller)
            # What is put to a butler is a task; statements are read from conversations.
            asked = replace(found, statements=())
            part = await store_essence(ctx, str(session), asked, None, {})
            return part.episode_id if part else None

        return await self._kept(stored)

    async def stored_by(self, caller: Caller, since: datetime) -> Sequence[UUID]:
        """List the memories that a caller has stored since an instant; none if that fails."""

        async def found() -> Sequence[UUID]:
            ctx = await self._operation_context(caller)
            return await stored_by(ctx.memory, caller.actor, since, ctx.lineage)

        return await forgiven(
            "memories of a session", found, otherwise=(), seconds=_COUNTING_SECONDS
        )

    async def remember_transcript(
        self,
        session: str,
        transcript: str,
        metadata: dict[str, Any],
        caller: Caller,
        pasted: Sequence[str] = (),
    ) -> UUID | None:
        """Store what is new in a session since it was last stored; None if nothing is.

        `pasted`: what its user is known to have pasted. Raises if that fails: the caller keeps the
        transcript and tries again.
        """
        async with asyncio.timeout(TRANSCRIPT_SECONDS):
            ctx = await self._operation_context(caller)
            said = await asyncio.to_thread(parse, transcript, pasted)
            episode = await store_session(ctx, session, said, metadata)
        await judge_session(ctx, session, said)
        return episode

    async def remember_pieces(
        self, session: str, transcript: str, metadata: dict[str, Any], caller: Caller
    ) -> None:
        """Store the pieces of what was stored of a session before it was cut into pieces."""
        async with asyncio.timeout(TRANSCRIPT_SECONDS):
            ctx = await self._operation_context(caller)
            said = await asyncio.to_thread(parse, transcript)
            await store_missing_pieces(ctx, session, said, metadata)

    async def _to_decide(self, ctx: OperationContext) -> str:
        """Return a line about what waits for the user, unless the caller is limited."""
        if ctx.scopes or ctx.lineage.trust < Trust.STATED:
            return ""
        counts = await count_waiting(ctx.memory, ctx.lineage)
        aside = await asyncio.to_thread(self._list_aside, self._butler)
        number = sum(counts.values()) + len(aside)
        things = "1 thing waits" if number == 1 else f"{number} things wait"
        return f"Tell your user: {things} for you; see `butlers review`.\n" if number else ""

    async def _waiting(self, ctx: OperationContext) -> str:
        """Return a line about unread episodes, for an agent that could read them."""
        if not self._invitation or ctx.scopes:
            return ""
        found = await count_unread(ctx.memory, ctx.lineage)
        if found.oldest is None:
            return ""
        many = f"{found.episodes} episodes wait" if found.episodes > 1 else "1 episode waits"
        days = max(0, (ctx.memory.now() - found.oldest).days)
        return f"{many} to be read; days since the oldest: {days}. {self._invitation}\n"

    async def _operation_context(self, caller: Caller) -> OperationContext:
        return OperationContext.of(await self._memory(), caller)

    async def _kept(self, stored: Callable[[], Awaitable[UUID | None]]) -> UUID | None:
        return await forgiven(
            "episode of a session", stored, otherwise=None, seconds=STORING_SECONDS
        )


def _memories_in(block: Block) -> tuple[UUID, ...]:
    """List the memories in a block."""
    return tuple(line.ref.id for some in block.included.values() for line in some)


def place_name(cwd: str, caller: Caller) -> str:
    """Return the name of a session's project, or else of its directory."""
    return (caller.project and caller.project.name) or PurePath(cwd).name
