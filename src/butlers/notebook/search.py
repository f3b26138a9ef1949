"""Search notes: the index finds candidates, TF-IDF ranks them, a language model may re-rank."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from butlers.db import queries
from butlers.errors import InvalidInput
from butlers.kernel.similarity import IDFCorpus, cosine_similarity_sparse
from butlers.notebook import terms as corpora
from butlers.notebook.handle import Notebook, checked_agent, checked_limit
from butlers.notebook.matching import Fetch, NoteQuery, find_matching, stand_ins
from butlers.notebook.model import (
    AgentMemory,
    DeepSearchFn,
    FastSearchOptions,
    NoteSearchMode,
    ScoredMemory,
    ScoreSource,
    SearchOptions,
    SearchResult,
    apply_decay,
)
from butlers.notebook.store import COLUMNS, kept_rows, note
from butlers.notebook.terms import Owner

_QUERIES = queries.load(__file__)
_log = structlog.get_logger(__name__)

FTS_SHARE = 0.4
TFIDF_SHARE = 0.6
DEFAULT_LIMIT = 10
_FEWEST_CANDIDATES = 20
_SPARE_CANDIDATES = 200
_RANK_SPAN = 0.9
"""How much less the last candidate counts than the first, however many there are."""

_Candidate = tuple[AgentMemory, dict[str, float]]
"""A note and the counts of its terms."""


@dataclass(frozen=True, slots=True)
class _Options:
    """Checked search options, with every default in place."""

    limit: int = DEFAULT_LIMIT
    mode: NoteSearchMode = NoteSearchMode.FAST
    category: str | None = None
    min_similarity: float = 0.0

    @property
    def candidates(self) -> int:
        """How many notes are weighed: enough to re-order, whatever the notebook's size."""
        return max(_FEWEST_CANDIDATES, min(2 * self.limit, self.limit + _SPARE_CANDIDATES))


def fast_search(
    db: Notebook, agent_id: str, query: str, opts: SearchOptions | FastSearchOptions | None = None
) -> list[ScoredMemory]:
    """Search the agent's notes, best first: by index rank, TF-IDF and age."""
    options = _checked(opts)
    return _ranked(db, agent_id, query, options)[0][: options.limit]


async def deep_search(
    db: Notebook,
    agent_id: str,
    query: str,
    opts: SearchOptions | None = None,
    deep_search_fn: DeepSearchFn | None = None,
) -> list[ScoredMemory]:
    """Let a language model rank the candidates of a fast search; without one, keep their order."""
    mode = NoteSearchMode.DEEP
    return (await find(db, agent_id, query, opts, deep_search_fn, mode)).memories


async def search(
    db: Notebook,
    agent_id: str,
    query: str,
    opts: SearchOptions | None = None,
    deep_search_fn: DeepSearchFn | None = None,
) -> list[ScoredMemory]:
    """Search fast or deep, depending on `mode`."""
    return (await find(db, agent_id, query, opts, deep_search_fn)).memories


def _checked(opts: SearchOptions | FastSearchOptions | None) -> _Options:
    chosen = dict(opts or {})
    unknown = chosen.keys() - _Options.__slots__
    if unknown:
        raise InvalidInput(f"unknown search options {sorted(unknown)}; use {_Options.__slots__}")
    limit = checked_limit(chosen.get("limit", DEFAULT_LIMIT))
    similarity = chosen.get("min_similarity", 0.0)
    if not isinstance(similarity, int | float) or not 0 <= similarity <= 1:
        raise InvalidInput(f"min_similarity is {similarity!r}; give a number from 0 to 1")
    mode, modes = chosen.get("mode") or NoteSearchMode.FAST, [mode.value for mode in NoteSearchMode]
    if mode not in modes:
        raise InvalidInput(f"mode is {mode!r}; give one of {modes}")
    category = str(chosen.get("category") or "") or None
    return _Options(limit, NoteSearchMode(mode), category, similarity)


def _ranked(
    db: Notebook, agent_id: str, query: str, options: _Options
) -> tuple[list[ScoredMemory], int]:
    """Rank the candidates that are similar enough; also return how many there were."""
    parsed = NoteQuery.by(query)
    with db.sqlite.snapshot():
        owner = corpora.get_owner(db, checked_agent(agent_id))
        if owner is None or not parsed.words:
            return [], 0
        candidates = _candidates(db, owner, parsed, options)
        scored = _scored(db, owner, parsed.terms, candidates)
    # Before decay: age alone never removes a note from the results.
    similar = [result for result in scored if result.score >= options.min_similarity]
    return apply_decay(similar, db.clock()), len(candidates)


def _candidates(
    db: Notebook, owner: Owner, query: NoteQuery, options: _Options
) -> list[_Candidate]:
    """Fetch candidates by relevance; a category without any is ignored."""
    within = {**owner.notes, "limit": options.candidates}
    fetches: list[Fetch] = [partial(db.sqlite.fetch, _QUERIES["candidates"], **within)]
    if options.category:
        within["category"] = options.category
        fetches.insert(0, partial(kept_rows, db, _QUERIES["candidates_of_category"], **within))
    results = (find_matching(db, owner, query, options.limit, fetch) for fetch in fetches)
    rows = next(filter(None, results), [])
    return [(note(row), json.loads(row[COLUMNS])) for row in rows[: options.candidates]]


def _scored(
    db: Notebook, owner: Owner, terms: list[str], candidates: list[_Candidate]
) -> list[ScoredMemory]:
    """Score each candidate by its index rank and its TF-IDF cosine to the query."""
    vocabulary = set[str]().union(*(counts for _, counts in candidates))
    corpus = corpora.corpus(db, owner, vocabulary.union(terms))
    wanted = _query_vector(corpus, terms, vocabulary)
    source, scored = ScoreSource.COMBINED if wanted else ScoreSource.FTS5, []
    for position, (memory, counts) in enumerate(candidates):
        rank = 1 - _RANK_SPAN * position / max(len(candidates), 2)
        cosine = cosine_similarity_sparse(wanted, corpus.weights(counts))
        score = FTS_SHARE * rank + TFIDF_SHARE * cosine if wanted else rank
        scored.append(ScoredMemory(memory, score, source))
    return scored


def _query_vector(corpus: IDFCorpus, terms: list[str], vocabulary: set[str]) -> dict[str, float]:
    """Build the query's TF-IDF vector over the terms that match it; empty if none do."""
    shares: dict[str, float] = {}
    matches = stand_ins(terms, vocabulary)
    for others in matches.values():
        for other in others:
            shares[other] = shares.get(other, 0.0) + 1 / len(others)
    unmatched = dict.fromkeys((term for term, others in matches.items() if not others), 1.0)
    return corpus.weights(shares | unmatched) if shares else {}


async def find(
    db: Notebook,
    agent_id: str,
    query: str,
    opts: SearchOptions | None,
    deep_search_fn: DeepSearchFn | None,
    mode: NoteSearchMode | None = None,
) -> SearchResult:
    """Search; also return the mode and the number of candidates."""
    options = _checked(opts)
    options = replace(options, mode=mode or options.mode)
    ranked, total = await db.apart(_ranked, db, agent_id, query, options)
    if options.mode is NoteSearchMode.DEEP and deep_search_fn is not None and ranked:
        candidates = [result.memory for result in ranked]
        try:
            answer = await deep_search_fn(query, candidates, options.limit)
            accepted = _accepted(answer, candidates)
        except Exception as error:  # noqa: BLE001  whatever a callback does, the search continues
            _log.warning("deep search failed, fast results are used", error=str(error))
        else:
            ranked = apply_decay(accepted, db.clock())
    return SearchResult(ranked[: options.limit], options.mode, total)


def _accepted(
    answer: Sequence[ScoredMemory], candidates: Sequence[AgentMemory]
) -> list[ScoredMemory]:
    """Keep the answers that are candidates, each once, with a usable score."""
    known = {memory.id: memory for memory in candidates}
    accepted: dict[str, ScoredMemory] = {}
    for result in answer:
        memory = known.get(result.memory.id)
        if memory is not None and math.isfinite(result.score) and result.score >= 0:
            scored = ScoredMemory(memory, float(result.score), ScoreSource.LLM)
            accepted.setdefault(memory.id, scored)
    if answer and not accepted:
        raise InvalidInput("the callback answered with none of the candidates it was given")
    return list(accepted.values())
