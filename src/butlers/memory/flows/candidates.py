"""Looking for what may answer a question, with what is remembered of the tenant.

That is one round trip; in a large store, where both legs are looked for at once, it is two.
"""

from collections.abc import Set
from dataclasses import dataclass, replace

from butlers.db.lease import beside
from butlers.kernel.text import preprocess_search_query
from butlers.kernel.words import prepared
from butlers.memory.candidates import CandidateColumns
from butlers.memory.handle import Memory
from butlers.memory.model import NOW, Lineage, MemoryType, SearchMode, Then
from butlers.memory.policy import inputs, question, scopes
from butlers.memory.policy.question import ParsedQuestion
from butlers.memory.store import search
from butlers.memory.store.search import NOTHING_AHEAD, Ahead, Filter, IndexQuery, TenantProfile

ALL_TYPES = tuple(MemoryType)
# Rows up to which a tenant's vectors are all read: exact, and about as quick as the index.
READ_WHOLE = 10_000
# How many the vector index compares where nothing else finds an answer, and where words do too. Of
# the true ten nearest among 100,000, a thousand miss one in 800 and five hundred one in 190; among
# a million a thousand miss one in 150.
NEIGHBOURS_ALONE, NEIGHBOURS = 1_000, 500
# Memories from which on words are looked for while the question is embedded, then beside meaning:
# so long do they take that a thousand neighbours keep nobody waiting.
AT_ONCE = 200_000
MAX_QUERY = 10_000


@dataclass(frozen=True, slots=True)
class CandidateQuery:
    """What is looked for, and among what."""

    text: str
    types: tuple[MemoryType, ...] = ALL_TYPES
    scope: str | None = None
    min_confidence: float = 0.2
    then: Then = NOW


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a question says, and what may answer it."""

    reading: ParsedQuestion
    looked: CandidateColumns
    names: Set[str]


async def find_candidates(
    memory: Memory,
    query: CandidateQuery,
    lineage: Lineage,
    depth: int,
    mode: SearchMode = SearchMode.HYBRID,
) -> Candidates:
    """What may answer, each leg to a depth; looked again if what was remembered was outdated."""
    query = _checked(query)
    await memory.settled(lineage.tenant_id)
    standing = await memory.standing(lineage)
    sight = await _look(memory, query, lineage, depth, mode, standing)
    if sight.looked.header.stale:
        fresh = await memory.standing(lineage, anew=True)
        if fresh != standing:
            sight = await _look(memory, query, lineage, depth, mode, fresh)
    return sight


async def _look(  # noqa: PLR0913 - a look is what is asked, by whom, how deep, how and knowing what
    memory: Memory,
    query: CandidateQuery,
    lineage: Lineage,
    depth: int,
    mode: SearchMode,
    standing: TenantProfile,
) -> Candidates:
    now, then = memory.now(), query.then
    text = question.by_every_name(query.text, standing.called)[:MAX_QUERY]
    reading = question.read(text, standing.names, then.at(now))
    where = Filter(query.types, query.scope, query.min_confidence, now, then.as_of, then.known_at)
    if mode is SearchMode.HYBRID and standing.memories > max(AT_ONCE, READ_WHOLE):
        asked, ahead = await _at_once(memory, reading, lineage, depth, standing)
    else:
        asked, ahead = await _index_query(memory, reading, mode, standing), NOTHING_AHEAD
    looked = await search.find_candidates(
        memory.database, lineage.tenant_id, asked, where, depth, READ_WHOLE, ahead
    )
    return Candidates(reading, looked, standing.names)


async def _at_once(
    memory: Memory, reading: ParsedQuestion, lineage: Lineage, depth: int, standing: TenantProfile
) -> tuple[IndexQuery, Ahead]:
    """What is looked up, and what both legs found of it, each on a connection of its own."""
    database, tenant, words = memory.database, lineage.tenant_id, prepared(reading.text)
    matched = search.match_ahead(database, tenant, words, standing.memories, depth)
    async with beside(matched) as matching:
        asked = await _index_query(memory, reading, SearchMode.HYBRID, standing)
        near = await search.near_ahead(database, tenant, asked, depth)
        return asked, Ahead(**await matching, **near)


async def _index_query(
    memory: Memory, reading: ParsedQuestion, mode: SearchMode, standing: TenantProfile
) -> IndexQuery:
    """What is looked up: the words unless only meaning counts, the vectors unless only words do.

    Where somebody is named, both are asked without the name as well, which would drown the rest.
    """
    known = (len(standing.names), standing.memories)
    words = "" if mode is SearchMode.SEMANTIC else prepared(reading.text)
    if mode is SearchMode.KEYWORD:
        return IndexQuery(standing.current_id, *known, words)
    twice = mode is SearchMode.HYBRID and reading.bare != reading.text
    texts = [reading.text, reading.bare] if twice else [reading.text]
    asked = await memory.embed_question(texts, standing)
    if asked is None:
        return IndexQuery(None, *known, words)
    bare, near_bare = (prepared(reading.bare), asked.vectors[1]) if twice else (None, None)
    is_few = words and standing.memories <= AT_ONCE
    neighbours = NEIGHBOURS if is_few else NEIGHBOURS_ALONE
    version, near = asked.version_id, asked.vectors[0]
    return IndexQuery(version, *known, words, near, bare, near_bare, neighbours)


def _checked(query: CandidateQuery) -> CandidateQuery:
    text = preprocess_search_query(query.text)
    inputs.checked_number("min_confidence", query.min_confidence, 0, 1)
    scope = scopes.checked("scope", query.scope) if query.scope else None
    types = query.types or ALL_TYPES
    return replace(query, text=text[:MAX_QUERY], types=types, scope=scope)
