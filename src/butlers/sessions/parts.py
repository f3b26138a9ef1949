"""What a session leaves in memory: its essence, part by part, and what its user stated.

Each part is stored once. Delivered again, or resumed and grown, a session adds what is new.
"""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import structlog

from butlers.memory.flows.session_parts import NewPart, Part, last_part, session_key, store_part
from butlers.memory.model import NewEpisode
from butlers.memory.operations import OperationContext
from butlers.sessions import essence
from butlers.sessions.essence import Essence
from butlers.sessions.spoken_statements import candidates
from butlers.sessions.transcripts import Transcript, instant_of

log = structlog.get_logger(__name__)


async def store_session(
    ctx: OperationContext, session: str, said: Transcript, metadata: Mapping[str, Any]
) -> UUID | None:
    """Store what is not stored of a session; its last new episode, None where nothing is new."""
    newest: UUID | None = None
    while True:
        after = await last_part(ctx.memory, session, ctx.lineage)
        rest = said.after(after.through if after else "")
        for found in await asyncio.to_thread(essence.of_transcript, rest):
            after = await store_essence(ctx, session, found, after, metadata)
            if after is None:
                # Somebody else delivers it too and was quicker: what is left is seen anew.
                break
            newest = after.episode_id
        else:
            return newest


async def store_essence(
    ctx: OperationContext,
    session: str,
    found: Essence,
    after: Part | None,
    metadata: Mapping[str, Any],
) -> Part | None:
    """Store a part of a session after another; None where the session went on otherwise."""
    memory, scope = ctx.memory, await ctx.kept(ctx.memory.butler)
    # Several speak in it, so that it has no author.
    episode = NewEpisode(
        found.text,
        scope,
        _as_uuid(session),
        metadata={**metadata, "session": session, "through": found.through},
        idempotency_key=f"{session_key(session)}:{after.through}"
        if after
        else session_key(session),
        said_at=_instant(found.asked_at),
    )
    stated = found.statements if memory.settings.statements.enabled else ()
    told = candidates(stated, scope, session, metadata)
    new = NewPart(session, after, found.through, episode, told)
    stored = await store_part(memory, new, ctx.lineage)
    if stored is not None:
        log.info(
            "session remembered",
            butler=memory.butler,
            episode=str(stored.episode_id),
            secrets_masked=found.secrets_masked,
        )
    return stored


def _as_uuid(session: str) -> UUID | None:
    try:
        return UUID(session)
    except ValueError:
        return None


def _instant(at: str) -> datetime | None:
    """An instant as a transcript writes it; None where it writes none, or without its offset."""
    try:
        found = datetime.fromisoformat(instant_of(at))
        return found.astimezone(UTC) if found.tzinfo else None
    except (ValueError, OverflowError):
        return None
