"""Import what is read of another product's file: conversations as sessions, the rest one by one."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from butlers.errors import ButlersError, InvalidInput
from butlers.host.butler import Butler
from butlers.memory.flows import portable
from butlers.memory.flows.batch import store_batch
from butlers.memory.flows.memory_checks import checked_each
from butlers.memory.flows.session_parts import last_part
from butlers.memory.model import Lineage, New, NewFact
from butlers.memory.operations import OperationContext
from butlers.memory.policy.trust import IMPORTED
from butlers.portability.conversations import Conversation
from butlers.portability.items import Source, read_items
from butlers.portability.native import Imported, OnStep
from butlers.portability.readers import READERS
from butlers.sessions.essence import store_session
from butlers.sessions.privacy import find_rules

_AT_ONCE = 200


async def bring_foreign(
    format: str, butler: Butler, file: Path, lineage: Lineage, on_step: OnStep, dry_run: bool
) -> Imported:
    """Import a file or folder of another product; memories that are known by key are skipped."""
    source = Source(file, format, butler.name, find_rules(str(butler.home.root), "", "", None))
    done = Imported(format, dry_run)
    ctx = OperationContext(butler.memory, replace(lineage, agent=IMPORTED))
    items = await asyncio.to_thread(lambda: list(read_items(READERS[format](source), source)))
    talks, new = list[tuple[str, Conversation]](), list[tuple[str, New]]()
    for place, content in items:
        if isinstance(content, str):
            done.skip(place, content)
        elif isinstance(content, Conversation):
            talks.append((place, content))
        else:
            new.append((place, content))
    await _bring_conversations(ctx, talks, done, on_step)
    await _bring_memories(ctx, new, done, on_step)
    order = {place: number for number, (place, _) in enumerate(items)}
    done.items.sort(key=lambda item: order[item["place"]])
    return done


async def _bring_conversations(
    ctx: OperationContext, talks: list[tuple[str, Conversation]], done: Imported, on_step: OnStep
) -> None:
    if talks:
        done.stored["conversation"] = 0
    first = dict[str, tuple[str, Conversation]]()
    for index, (place, talk) in enumerate(talks):
        on_step("storing conversations", index, len(talks))
        before, same = first.setdefault(talk.id, (place, talk))
        if same.said != talk.said:
            done.skip(place, f"{before} has the same id")
            continue
        session = f"{done.source}-{talk.id}"[:200]
        metadata = {"source": done.source, "title": talk.title[:200], "project": ""}
        try:
            if done.dry_run:
                is_known = await last_part(ctx.memory, session, ctx.lineage) is not None
            else:
                is_known = not await store_session(ctx, session, talk.said, metadata)
            says = f"{talk.title} ({len(talk.said.said)} messages)"
            done.count(place, "conversation", says, is_known=is_known)
        except InvalidInput as error:
            done.skip(place, str(error))


async def _bring_memories(
    ctx: OperationContext, found: list[tuple[str, New]], done: Imported, on_step: OnStep
) -> None:
    """Store the memories whose keys are not known, in batches."""
    keys = [new.idempotency_key or "" for _, new in found]
    known, fresh = await portable.known_keys(ctx.memory, keys, ctx.lineage), dict[str, Any]()
    for key, (place, new) in zip(keys, found, strict=True):
        if key in fresh and fresh[key][1].content != new.content:
            done.skip(place, f"{fresh[key][0]} has the same id")
        elif key in known or key in fresh:
            done.count(place, *_describe(new), is_known=True)
        else:
            fresh[key] = place, new
    waiting = list[tuple[str, New]](fresh.values())
    for start in range(0, len(waiting), _AT_ONCE):
        on_step("storing", start, len(waiting))
        batch = waiting[start : start + _AT_ONCE]
        faults = await (_check if done.dry_run else _store)([new for _, new in batch], ctx)
        for (place, new), fault in zip(batch, faults, strict=True):
            if fault:
                done.skip(place, fault)
            else:
                done.count(place, *_describe(new))


def _describe(new: New) -> tuple[str, str]:
    """Return the kind of a memory, and what it says."""
    about = f"{new.subject} {new.predicate}: " if isinstance(new, NewFact) else ""
    return type(new).__name__.removeprefix("New").lower(), about + new.content


async def _check(batch: Sequence[New], ctx: OperationContext) -> list[str]:
    """Return why each memory would not be stored; "" if it would."""
    checked = await checked_each(ctx.memory, batch)
    return [str(one) if isinstance(one, ButlersError) else "" for one in checked]


async def _store(batch: Sequence[New], ctx: OperationContext) -> list[str]:
    """Store memories; return why each was not, "" if it was."""
    stored = await store_batch(ctx.memory, batch, ctx.lineage)
    return [result.error or "" for result in stored.results]
