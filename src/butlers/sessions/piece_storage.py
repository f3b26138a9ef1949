"""Store the pieces of sessions: with their part, or later where a part was stored without."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from butlers.memory.flows.portable import known_keys
from butlers.memory.flows.session_parts import find_parts, store_pieces
from butlers.memory.model import NewEpisode
from butlers.memory.operations import OperationContext
from butlers.sessions.echo import Echo
from butlers.sessions.pieces import NewPiece, exchange_pieces, pieces_of
from butlers.sessions.transcripts import Speaker, Transcript, instant_of, utc_instant

_NEARLY_ALL = 0.8


def piece_episodes(
    pieces: Sequence[NewPiece], scope: str, session: str, metadata: Mapping[str, Any]
) -> list[NewEpisode]:
    """Make the rows of pieces; the same words at the same time have one key in every session."""
    return [
        NewEpisode(
            piece.text,
            scope,
            id_of(session),
            metadata={**metadata, "session": session, **piece.details},
            idempotency_key=_key(piece, scope, session),
            said_at=utc_instant(instant_of(piece.at)),
            piece=piece.kind,
            origin=piece.origin,
        )
        for piece in pieces
    ]


def id_of(session: str) -> UUID | None:
    """Return the session id that a session's memories have, if it is a UUID."""
    with suppress(ValueError):
        return UUID(session)
    return None


def _key(piece: NewPiece, scope: str, session: str) -> str:
    # Without a time nothing tells a copy of a session from another in which the same was said.
    when = utc_instant(instant_of(piece.at)) or f"{session} {piece.at}"
    digest = hashlib.sha256(f"{when}\0{piece.text}".encode()).hexdigest()[:32]
    return f"piece:{scope}:{piece.kind}:{digest}"


async def copied_through(ctx: OperationContext, session: str, said: Transcript) -> str:
    """Return the instant up to which a session copies others; "" if it copies nothing.

    Agents write what came before a fork or a resumption into the new session's transcript again.
    """
    echo, scope = Echo(said.recalled), await ctx.store_scope(ctx.memory.butler)
    pieces = await asyncio.to_thread(lambda: list(exchange_pieces(list(said.exchanges()), echo)))
    keys = [_key(piece, scope, session) for piece in pieces]
    known = await known_keys(ctx.memory, keys, ctx.lineage) if keys else set()
    last = max((number for number, key in enumerate(keys, 1) if key in known), default=0)
    if not last or sum(key in known for key in keys[:last]) < _NEARLY_ALL * last:
        return ""
    # Up to the next exchange with a piece; what is left of a copied exchange is no exchange.
    copied, new = pieces[last - 1].at, min((piece.at for piece in pieces[last:]), default="")
    turns = (one.at for one in said.said if one.speaker is Speaker.USER and one.at > copied)
    new_from = max((at for at in turns if at <= new), default=new or "~")
    return max(one.at for one in said.said if one.at < new_from or one.at <= copied)


async def store_missing_pieces(
    ctx: OperationContext, session: str, said: Transcript, metadata: Mapping[str, Any]
) -> None:
    """Store the pieces of parts that were stored without; nothing else."""
    scope = await ctx.store_scope(ctx.memory.butler)
    for after, part in await find_parts(ctx.memory, session, ctx.lineage):
        pieces = await asyncio.to_thread(pieces_of, said.between(after, part.through))
        rows = piece_episodes(pieces, scope, session, metadata)
        known = await known_keys(
            ctx.memory, [str(row.idempotency_key) for row in rows], ctx.lineage
        )
        new = [row for row in rows if row.idempotency_key not in known]
        await store_pieces(ctx.memory, session, part, new, ctx.lineage)
