"""Listings, and one of each with all there is to know of it."""

from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query

from butlers.doors.http import answers, asking
from butlers.doors.http.seats import Seat, Seated
from butlers.errors import InvalidInput, NotFound
from butlers.memory.flows import browse, detail
from butlers.memory.model import MemoryType

router = APIRouter(tags=["memory"])


@router.get("/facts", response_model=answers.Facts)
async def list_facts(seat: Seated, asked: Annotated[asking.AskedFacts, Query()]) -> Any:
    """Facts, newest first, by filters and a page at a time."""
    where = browse.FactFilter(**_filters(asked))
    return asdict(await browse.browse_facts(seat.memory, where, asked.wanted(), seat.lineage))


@router.get("/rules", response_model=answers.Rules)
async def list_rules(seat: Seated, asked: Annotated[asking.AskedRules, Query()]) -> Any:
    """Rules, newest first, by filters and a page at a time."""
    where = browse.RuleFilter(**_filters(asked))
    return asdict(await browse.browse_rules(seat.memory, where, asked.wanted(), seat.lineage))


@router.get("/episodes", response_model=answers.Episodes)
async def list_episodes(seat: Seated, asked: Annotated[asking.AskedEpisodes, Query()]) -> Any:
    """Episodes, newest first, by filters and a page at a time."""
    where = browse.EpisodeFilter(**_filters(asked))
    return asdict(await browse.browse_episodes(seat.memory, where, asked.wanted(), seat.lineage))


@router.get("/activity", response_model=answers.Activity)
async def list_activity(seat: Seated, asked: Annotated[asking.AskedActivity, Query()]) -> Any:
    """What happened, newest first; with `after`, only what happened since."""
    if asked.after is not None and asked.cursor is not None:
        raise InvalidInput("after: found next to cursor; valid is one of them")
    return asdict(await activity_of(seat, asked))


@router.get("/facts/{fact_id}", response_model=answers.MemoryDetail)
async def get_fact(seat: Seated, fact_id: UUID) -> Any:
    """A fact with its sources, links, events, what it replaced and how its confidence will go."""
    return await _detail(seat, MemoryType.FACT, fact_id)


@router.get("/rules/{rule_id}", response_model=answers.MemoryDetail)
async def get_rule(seat: Seated, rule_id: UUID) -> Any:
    """A rule with its sources, links, events, applications and how its confidence will go."""
    return await _detail(seat, MemoryType.RULE, rule_id)


@router.get("/episodes/{episode_id}", response_model=answers.MemoryDetail)
async def get_episode(seat: Seated, episode_id: UUID) -> Any:
    """An episode with its links and events."""
    return await _detail(seat, MemoryType.EPISODE, episode_id)


async def activity_of(seat: Seat, asked: asking.AskedActivity) -> browse.Page:
    """A page of one butler's audit stream."""
    memory, lineage = seat.memory, seat.lineage
    if asked.after is not None:
        return await browse.activity_after(memory, asked.after, asked.limit, lineage)
    cursor = str(asked.cursor) if asked.cursor else None
    return await browse.recent_activity(memory, asked.limit, cursor, lineage)


async def _detail(seat: Seat, kind: MemoryType, memory_id: UUID) -> dict[str, Any]:
    found = await detail.memory_detail(seat.memory, kind, memory_id, seat.lineage)
    if found is None:
        raise NotFound(f"{kind}_id: you have no {kind} {memory_id}")
    return found


def _filters(asked: asking.Paged) -> dict[str, Any]:
    return asked.model_dump(exclude=set(asking.Paged.model_fields))
