"""Find the candidates of a query: the memories that may answer it, before they are ranked.

That takes one round trip; in a large store, where words and vectors are searched at once, two.
"""

import asyncio
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass, replace

from butlers.db.lease import beside
from butlers.kernel.text import prepared, preprocess_search_query
from butlers.memory.candidates import CandidateColumns
from butlers.memory.handle import Memory
from butlers.memory.model import NOW, Lineage, MemoryType, SearchMode, Then
from butlers.memory.policy import inputs, question, scopes
from butlers.memory.policy.question import ParsedQuestion
from butlers.memory.policy.ranker import Ranked, ranking, weights
from butlers.memory.policy.signals import field, signals
from butlers.memory.store import search
from butlers.memory.store.search import (
    NOTHING_AHEAD,
    Ahead,
    Filter,
    IndexQuery,
    Limits,
    TenantProfile,
)

ALL_TYPES = tuple(MemoryType)
# Rows up to which a tenant's vectors are all read: exact, and about as quick as the index.
READ_WHOLE = 10_000
# How many neighbours the vector index compares without a word search, and with one. Of the true
# ten nearest among 100,000, a thousand miss one in 800 and five hundred one in 190; among a
# million a thousand miss one in 150.
NEIGHBOURS_ALONE, NEIGHBOURS = 1_000, 500
# Memories from which on words are searched while the query is embedded, then beside the vectors:
# the word search takes so long that a thousand neighbours keep nobody waiting.
AT_ONCE = 200_000
MAX_QUERY = 10_000


@dataclass(frozen=True, slots=True)
class CandidateQuery:
    """A search text, and which memories it may return."""

    text: str
    types: tuple[MemoryType, ...] = ALL_TYPES
    scope: str | None = None
    min_confidence: float = 0.2
    then: Then = NOW
    embedding_seconds: float | None = None
    """How long to wait for its vector; after that it is looked up by its words alone."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """A parsed query and the memories that may answer it."""

    question: ParsedQuestion
    columns: CandidateColumns
    names: Set[str]
    depth: int
    by_words: bool = False
    """Whether its vector came too late, or the tenant has no vectors."""
    low: CandidateColumns | None = None
    """Those of low trust, which are found and ranked by themselves; None where there are none."""

    def ranked(self, columns: CandidateColumns) -> list[Ranked]:
        """Rank some of them by the learned weights, the first `depth` of them, best first."""
        if not columns.ids:
            return []
        found = signals(field(columns), columns, self.question, self.names)
        return ranking(columns, found, weights(), self.depth).ranked


async def find_candidates(
    memory: Memory,
    query: CandidateQuery,
    lineage: Lineage,
    depth: int,
    mode: SearchMode = SearchMode.HYBRID,
) -> Candidates:
    """Find what may answer a query, the best `depth` by words and by meaning each.

    Memories of low trust are found apart: whatever they say, the others are the same without them.
    Uses the cached profile of the tenant, and searches again when the profile was outdated.
    """
    inputs.checked_number("min_confidence", query.min_confidence, 0, 1)
    query = replace(
        query,
        text=preprocess_search_query(query.text)[:MAX_QUERY],
        types=query.types or ALL_TYPES,
        scope=scopes.checked("scope", query.scope) if query.scope else None,
    )
    await memory.settled(lineage.tenant_id)
    profile = await memory.standing(lineage)
    candidates = await _search(memory, query, lineage, depth, mode, profile)
    if candidates.columns.header.stale:
        fresh = await memory.standing(lineage, anew=True)
        if fresh != profile:
            candidates = await _search(memory, query, lineage, depth, mode, fresh)
    return candidates


async def _search(
    memory: Memory,
    query: CandidateQuery,
    lineage: Lineage,
    depth: int,
    mode: SearchMode,
    profile: TenantProfile,
) -> Candidates:
    now, then, text = memory.now(), query.then, query.text
    if profile.called:
        text = question.by_every_name(text, profile.called)[:MAX_QUERY]
    parsed = question.read(text, profile.names, then.as_of or then.known_at or now)
    where = Filter(query.types, query.scope, query.min_confidence, now, then.as_of, then.known_at)
    if mode is SearchMode.HYBRID and profile.memories > max(AT_ONCE, READ_WHOLE):
        index_query, ahead = await _search_ahead(memory, parsed, lineage, depth, profile)
    else:
        seconds = query.embedding_seconds
        index_query = await _index_query(memory, parsed, mode, profile, seconds)
        ahead = NOTHING_AHEAD
    limits = Limits(depth, READ_WHOLE)
    database, tenant, low = memory.database, lineage.tenant_id, None
    columns = await search.find_candidates(database, tenant, index_query, where, limits, ahead)
    if columns.header.has_low:
        index_query, where = replace(index_query, total_known=0), replace(where, low=True)
        low = await search.find_candidates(database, tenant, index_query, where, limits)
    return Candidates(parsed, columns, profile.names, depth, index_query.near is None, low)


async def _search_ahead(
    memory: Memory, parsed: ParsedQuestion, lineage: Lineage, depth: int, profile: TenantProfile
) -> tuple[IndexQuery, Ahead]:
    """Search words and vectors at once, each on a connection of its own."""
    database, tenant, words = memory.database, lineage.tenant_id, prepared(parsed.text)
    matched = search.prefetch_matching(database, tenant, words, profile.memories, depth)
    async with beside(matched) as matching:
        index_query = await _index_query(memory, parsed, SearchMode.HYBRID, profile)
        near = await search.prefetch_nearest(database, tenant, index_query, depth)
        return index_query, Ahead(**await matching, **near)


async def _index_query(
    memory: Memory,
    parsed: ParsedQuestion,
    mode: SearchMode,
    profile: TenantProfile,
    seconds: float | None = None,
) -> IndexQuery:
    """Build the query of the index: words unless semantic, vectors unless keyword.

    Where somebody is named, both are also searched without the name, which would drown the rest.
    """
    known = (len(profile.names), profile.memories)
    words = "" if mode is SearchMode.SEMANTIC else prepared(parsed.text)
    if mode is SearchMode.KEYWORD:
        return IndexQuery(profile.current_id, *known, words)
    is_named = mode is SearchMode.HYBRID and parsed.bare != parsed.text
    texts = [parsed.text, parsed.bare] if is_named else [parsed.text]
    embedded = None
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            embedded = await memory.embed_question(texts, profile)
    if embedded is None:
        return IndexQuery(None, *known, words)
    bare, near_bare = (prepared(parsed.bare), embedded.vectors[1]) if is_named else (None, None)
    is_few = words and profile.memories <= AT_ONCE
    neighbours = NEIGHBOURS if is_few else NEIGHBOURS_ALONE
    version, near = embedded.version_id, embedded.vectors[0]
    return IndexQuery(version, *known, words, near, bare, near_bare, neighbours)
