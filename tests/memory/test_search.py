"""Searching by meaning, by words and by both."""

import math
import random
from dataclasses import replace
from unittest.mock import AsyncMock

import pytest

from butlers.errors import InvalidInput, Unavailable
from butlers.memory.flows import candidates, forget, recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.model import MemoryType, NewEpisode, NewFact, NewRule, SearchMode
from butlers.memory.policy.confidence import effective_confidence
from butlers.memory.store import search

FACTS = (MemoryType.FACT,)
EVERY_MODE = list(SearchMode)


async def fact(memory, lineage, content, subject="Ann", predicate=None, **more):
    new = NewFact(subject, predicate or content.split()[0], content, **more)
    return (await remember.store_fact(memory, new, lineage)).id


async def find(memory, lineage, text, mode=SearchMode.HYBRID, limit=10, **query):
    return await recall.search_memories(memory, CandidateQuery(text, **query), mode, limit, lineage)


def ids(found):
    return [one["id"] for one in found]


@pytest.mark.contract("R07.1")
async def test_semantic_search_orders_by_cosine_similarity(memory, lineage, owner):
    near = await fact(memory, lineage, "green tea with milk")
    far = await fact(memory, lineage, "red sports car")
    found = await find(memory, lineage, "Ann green tea with milk", SearchMode.SEMANTIC)
    assert ids(found) == [str(near), str(far)]
    query = memory.embedder().embed("Ann green tea with milk")
    for one in found:
        exact = await owner.fetchval(
            "select 1 - (embedding <=> $1::text::vector) from facts where id = $2::text::uuid",
            str(query),
            one["id"],
        )
        assert one["similarity"] == pytest.approx(exact, abs=1e-4)


@pytest.mark.contract("R07.1", "R07.2", "R02.3")
@pytest.mark.parametrize("mode", EVERY_MODE)
async def test_what_is_no_longer_held_is_not_found(memory, lineage, clock, mode):
    old = await fact(memory, lineage, "tea is lovely", predicate="drink")
    new = await fact(memory, lineage, "tea is awful", predicate="drink")
    retracted = await fact(memory, lineage, "tea at noon")
    rule = (await remember.store_rule(memory, NewRule("brew tea slowly"), lineage)).id
    episode = (await remember.store_episode(memory, NewEpisode("tea spilt", "general"), lineage)).id
    await forget.forget_memory(memory, "fact", retracted, lineage)
    await forget.forget_memory(memory, "rule", rule, lineage)
    await forget.forget_memory(memory, "episode", episode, lineage)
    found = await find(memory, lineage, "tea", mode)
    assert ids(found) == [str(new)]
    assert str(old) not in ids(found)


@pytest.mark.contract("R07.2", "L14")
async def test_keyword_search_finds_sentences_by_any_of_their_words(memory, lineage, owner):
    full = await fact(memory, lineage, "drinks oolong tea every morning", predicate="habit")
    part = await fact(memory, lineage, "went hiking in the morning", predicate="trip")
    await fact(memory, lineage, "owns a bicycle", predicate="property")
    question = "Which oolong tea did she have yesterday morning?"
    assert (
        await owner.fetchval(
            "select count(*) from facts where search_vector @@ plainto_tsquery('english', $1)",
            question,
        )
        == 0
    ), "with AND the sentence matches nothing: the test would prove nothing"
    found = await find(memory, lineage, question, SearchMode.KEYWORD)
    assert ids(found) == [str(full), str(part)]
    assert found[0]["rank"] > found[1]["rank"] > 0


@pytest.mark.contract("L14")
async def test_a_rare_word_outweighs_a_common_one(memory, lineage):
    for number in range(20):
        await fact(memory, lineage, "meeting notes", predicate=f"day {number}")
    long = "saw a quokka on a long walk past the harbour and the old lighthouse"
    rare = await fact(memory, lineage, long, predicate="trip")
    found = await find(memory, lineage, "notes on the quokka", SearchMode.KEYWORD)
    assert ids(found)[0] == str(rare)


async def test_of_two_that_name_the_word_the_one_that_says_less_else_is_the_fuller_match(
    memory, lineage, clock
):
    """Stored first, so that the order of age would put it last."""
    brief = await fact(memory, lineage, "quokka seen", predicate="trip")
    clock.advance(hours=1)
    rambling = " ".join(f"walked past shop number {n}" for n in range(40))
    await fact(memory, lineage, f"quokka seen and {rambling}", predicate="day")
    found = await find(memory, lineage, "quokka", SearchMode.KEYWORD)
    assert ids(found)[0] == str(brief)
    assert found[0]["rank"] > found[1]["rank"]


@pytest.mark.contract("R07.2", "R11.3")
@pytest.mark.parametrize("nothing", ["", "   ", "\x00", "the of and", "?!&|:*"])
async def test_a_query_without_words_finds_nothing_by_keyword(memory, lineage, nothing):
    await fact(memory, lineage, "the best of and tea")
    assert await find(memory, lineage, nothing, SearchMode.KEYWORD) == []


@pytest.mark.parametrize("mode", EVERY_MODE)
@pytest.mark.parametrize(
    "hostile",
    ["'; drop table facts; --", "a & | ! <-> (b:*", "x" * 9_000, "🫖 тест שלום", "' & '", "\\"],
)
async def test_a_query_is_text_whatever_it_looks_like(memory, lineage, mode, hostile):
    kept = await fact(memory, lineage, "tea")
    await find(memory, lineage, hostile, mode)
    assert ids(await find(memory, lineage, "tea", mode)) == [str(kept)]


@pytest.mark.contract("R07.3", "N6.1", "L36", "L47")
async def test_hybrid_scores_are_the_fused_ranks(memory, lineage):
    """The learned score ranks every candidate in both rankings, also one that shares no word."""
    for number in range(6):
        await fact(memory, lineage, f"tea number {number}", predicate=f"p{number}")
    other = await fact(memory, lineage, "coffee", predicate="other")
    fused = await find(memory, lineage, "tea 3")
    match = ids(await find(memory, lineage, "tea 3", SearchMode.KEYWORD, 50))
    assert len(fused) == 7 and set(match) == set(ids(fused)) - {str(other)}
    assert [one["semantic_rank"] for one in fused] == list(range(1, 8))
    assert [one["keyword_rank"] for one in fused] == list(range(1, 8))
    for one in fused:
        parts = 1 / (60 + one["semantic_rank"]) + 1 / (60 + one["keyword_rank"])
        assert one["rrf_score"] == pytest.approx(parts)
    order = [(-one["rrf_score"], one["semantic_rank"]) for one in fused]
    assert order == sorted(order)


@pytest.mark.contract("L36")
async def test_asking_for_more_never_reorders_what_came_first(memory, lineage):
    for number in range(30):
        await fact(memory, lineage, f"tea and cake {number % 7}", predicate=f"p{number}")
    every = ids(await find(memory, lineage, "cake 3 or tea", limit=100))
    for limit in (1, 5, 29):
        assert ids(await find(memory, lineage, "cake 3 or tea", limit=limit)) == every[:limit]


@pytest.mark.contract("L36")
@pytest.mark.parametrize("mode", [SearchMode.SEMANTIC, SearchMode.KEYWORD])
async def test_one_leg_alone_is_in_its_own_order(memory, lineage, mode):
    for number in range(8):
        await fact(memory, lineage, f"tea {'tea ' * number}", predicate=f"p{number}")
    found = await find(memory, lineage, "tea", mode)
    score = "similarity" if mode is SearchMode.SEMANTIC else "rank"
    assert [one[score] for one in found] == sorted((one[score] for one in found), reverse=True)
    assert "rrf_score" not in found[0]
    assert all(0 <= one["relevance"] <= 1 for one in found)


@pytest.mark.contract("R07.4")
@pytest.mark.parametrize("mode", EVERY_MODE)
async def test_all_three_types_are_searched_and_tagged(memory, lineage, mode):
    await fact(memory, lineage, "tea")
    await remember.store_rule(memory, NewRule("offer tea"), lineage)
    await remember.store_episode(memory, NewEpisode("bought tea", "general"), lineage)
    found = await find(memory, lineage, "tea", mode)
    assert {one["memory_type"] for one in found} == {"episode", "fact", "rule"}
    for kind in MemoryType:
        only = await find(memory, lineage, "tea", mode, types=(kind,))
        assert [one["memory_type"] for one in only] == [kind]


@pytest.mark.contract("L19")
async def test_no_result_carries_a_vector(memory, lineage):
    await fact(memory, lineage, "tea")
    for mode in EVERY_MODE:
        for one in await find(memory, lineage, "tea", mode):
            assert not {"embedding", "search_vector"} & set(one)


@pytest.mark.contract("R06.1", "N6.3")
@pytest.mark.parametrize("mode", EVERY_MODE)
async def test_a_scope_sees_itself_and_the_global_one(memory, lineage, mode):
    everywhere = await fact(memory, lineage, "tea globally", predicate="a")
    mine = await fact(memory, lineage, "tea here", predicate="b", scope="relationship")
    await fact(memory, lineage, "tea elsewhere", predicate="c", scope="health")
    rule = NewRule("tea rule", scope="relationship")
    kept = (await remember.store_rule(memory, rule, lineage)).id
    await remember.store_rule(memory, NewRule("tea rule too", scope="health"), lineage)
    found = await find(memory, lineage, "tea", mode, scope="relationship")
    assert set(ids(found)) == {str(everywhere), str(mine), str(kept)}


@pytest.mark.contract("R06.2")
@pytest.mark.parametrize("mode", EVERY_MODE)
async def test_episodes_are_scoped_by_their_butler(memory, lineage, mode):
    mine = await remember.store_episode(memory, NewEpisode("tea", "relationship"), lineage)
    await remember.store_episode(memory, NewEpisode("tea", "global"), lineage)
    found = await find(memory, lineage, "tea", mode, scope="relationship")
    assert ids(found) == [str(mine.id)]


@pytest.mark.contract("R06.3")
@pytest.mark.parametrize("mode", EVERY_MODE)
async def test_no_scope_sees_every_scope(memory, lineage, mode):
    for scope in ("global", "health", "relationship"):
        await fact(memory, lineage, "tea", scope=scope)
        await remember.store_episode(memory, NewEpisode("tea", scope), lineage)
    assert len(await find(memory, lineage, "tea", mode)) == 6


@pytest.mark.contract("L15", "R07.4")
@pytest.mark.parametrize("mode", EVERY_MODE)
async def test_filters_apply_before_the_limit(memory, lineage, clock, stranger, mode):
    """Better matches that may not be shown never take the place of those that may."""
    for number in range(60):
        await fact(memory, stranger, "tea tea tea", predicate=f"theirs {number}")
        await fact(memory, lineage, "tea tea tea", predicate=f"else {number}", scope="health")
        await fact(
            memory, lineage, "tea tea tea", predicate=f"old {number}", permanence="ephemeral"
        )
    clock.advance(days=40)
    wanted = [await fact(memory, lineage, f"some tea {n}", predicate=f"p{n}") for n in range(5)]
    found = await find(memory, lineage, "tea", mode, 5, types=FACTS, scope="general")
    assert set(ids(found)) == {str(one) for one in wanted}


@pytest.mark.contract("L4", "R07.4", "N6.2")
@pytest.mark.parametrize("mode", EVERY_MODE)
async def test_min_confidence_compares_what_is_left_and_equal_passes(memory, lineage, clock, mode):
    await fact(memory, lineage, "tea", permanence="ephemeral")
    clock.advance(days=10)
    left = effective_confidence(1.0, 0.1, clock.now.replace(day=10), clock.now)
    assert left == pytest.approx(math.exp(-1))
    [found] = await find(memory, lineage, "tea", mode, min_confidence=left)
    assert found["effective_confidence"] == left
    above = math.nextafter(left, 1)
    assert await find(memory, lineage, "tea", mode, min_confidence=above) == []


@pytest.mark.contract("R29.1", "R29.2", "N4.3")
@pytest.mark.parametrize("mode", EVERY_MODE)
async def test_a_search_never_leaves_its_tenant(memory, lineage, stranger, mode):
    await fact(memory, stranger, "secret tea")
    assert await find(memory, lineage, "secret tea", mode) == []
    own = await fact(memory, lineage, "plain tea")
    assert ids(await find(memory, lineage, "secret tea", mode)) == [str(own)]


@pytest.mark.contract("L16")
async def test_a_large_tenant_is_searched_by_index_with_a_short_answer_made_whole(
    memory, lineage, monkeypatch
):
    """Whether by index or by reading everything, the nearest come back, and as many as asked."""
    kept = [await fact(memory, lineage, f"tea {n}", predicate=f"p{n}") for n in range(12)]
    await fact(memory, lineage, "tea in private", predicate="x", scope="health")
    exact = ids(await find(memory, lineage, "tea 3", SearchMode.SEMANTIC, 5))
    monkeypatch.setattr(candidates, "READ_WHOLE", 0)
    assert ids(await find(memory, lineage, "tea 3", SearchMode.SEMANTIC, 5)) == exact
    every = await find(memory, lineage, "tea", SearchMode.SEMANTIC, 50, scope="general")
    assert set(ids(every)) == {str(one) for one in kept}


@pytest.mark.contract("L16", "L36")
async def test_what_is_found_at_once_is_what_is_found_in_turn(memory, lineage, monkeypatch):
    """However many may not be shown: of those nearest to a question most are another scope's."""
    chance = random.Random(5)
    words = ["tea", "boat", "cello", "harbour", "lamp", "kubernetes"]
    for number in range(400):
        text = " ".join(chance.choices(words, k=4))
        who, scope = chance.choice(["Ann", "Bob"]), chance.choice(["global", "x"])
        kept = NewFact(who, f"p{number}", text, scope=scope)
        if number < 20:
            kept = replace(kept, content="lamp lamp", scope="health")
        await remember.store_fact(memory, kept, lineage)
    monkeypatch.setattr(candidates, "READ_WHOLE", -1)
    fetch_as, told = type(memory.database).fetch_as, []

    async def telling(self, tenant_id, query, /, **values):
        told.append(query.name)
        return await fetch_as(self, tenant_id, query, **values)

    for asked in ("tea and a cello", "What has Ann about boats?", "kuber?", "the"):
        for scope in (None, "health", "general"):
            in_turn = await find(memory, lineage, asked, SearchMode.HYBRID, 20, scope=scope)
            with monkeypatch.context() as patch:
                patch.setattr(candidates, "AT_ONCE", -1)
                patch.setattr(type(memory.database), "fetch_as", telling)
                at_once = await find(memory, lineage, asked, SearchMode.HYBRID, 20, scope=scope)
            assert at_once == in_turn != []
            assert {*told} >= {"find_candidates", "prefetch_matching", "prefetch_nearest"}
            told.clear()


async def test_a_leg_that_fails_at_once_fails_the_question_alone(memory, lineage, monkeypatch):
    await fact(memory, lineage, "tea")
    for name in ("READ_WHOLE", "AT_ONCE"):
        monkeypatch.setattr(candidates, name, -1)
    for leg in ("prefetch_matching", "prefetch_nearest"):
        with monkeypatch.context() as patch, pytest.raises(Unavailable, match="gone"):
            patch.setattr(search, leg, AsyncMock(side_effect=Unavailable("gone")))
            await find(memory, lineage, "tea", SearchMode.HYBRID)
        assert len(await find(memory, lineage, "tea", SearchMode.HYBRID)) == 1


async def test_vectors_of_another_model_are_never_compared(memory, lineage):
    kept = await fact(memory, lineage, "tea")
    inner = memory.embedder()

    class Other(type(inner)):
        version = "2"

    other = Other()
    newer = replace(memory, embedder=lambda: other)
    assert await find(newer, lineage, "tea", SearchMode.SEMANTIC) == []
    assert ids(await find(newer, lineage, "tea", SearchMode.KEYWORD)) == [str(kept)]


@pytest.mark.contract("L19")
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"min_confidence": 1.5}, "min_confidence"),
        ({"min_confidence": math.nan}, "min_confidence"),
    ],
)
async def test_bad_limits_are_refused_by_name(memory, lineage, change, named):
    with pytest.raises(InvalidInput, match=named):
        await find(memory, lineage, "tea", **change)


async def test_a_tenant_that_stored_nothing_finds_nothing_and_leaves_no_trace(
    memory, stranger, owner
):
    for mode in EVERY_MODE:
        assert await find(memory, stranger, "tea", mode) == []
    assert await owner.fetchval("select count(*) from embedding_versions") == 0
