"""Resolving a name to the entities it may mean."""

import uuid
from contextlib import asynccontextmanager

import pytest

from butlers.errors import InvalidInput
from butlers.memory.flows.entities import create_entity, get_entity
from butlers.memory.flows.entity_merge import merge_entities
from butlers.memory.flows.entity_resolution import MAX_CANDIDATES, resolve_entity
from butlers.memory.flows.remember import store_fact
from butlers.memory.model import Lineage, NewFact

RESULT_KEYS = ["entity_id", "canonical_name", "entity_type", "score", "name_match", "aliases"]


@pytest.fixture
def add(memory, lineage):
    """Creates an entity of the caller."""

    async def create(name, *aliases, entity_type="person"):
        return await create_entity(memory, name, entity_type, aliases, None, lineage)

    return create


@pytest.fixture
def resolve(memory, lineage):
    """Resolves a name for the caller."""

    async def ask(name, **options):
        return await resolve_entity(memory, name, lineage, **options)

    return ask


@pytest.fixture
def learn(memory, lineage):
    """Stores a fact about an entity."""

    async def store(entity_id, predicate, content):
        new = NewFact("someone", predicate, content, entity_id=entity_id)
        return await store_fact(memory, new, lineage)

    return store


@asynccontextmanager
async def missing_trigrams(owner):
    """A server without pg_trgm, for a while."""
    await owner.execute("drop extension pg_trgm")
    try:
        yield
    finally:
        await owner.execute("create extension pg_trgm with schema public")


@pytest.fixture
async def without_trigrams(owner):
    """A server without pg_trgm, for the length of a test."""
    async with missing_trigrams(owner):
        yield


def brief(results):
    return [(one["canonical_name"], one["name_match"], one["score"]) for one in results]


def named(results):
    return [one["canonical_name"] for one in results]


@pytest.mark.contract("R17.1")
@pytest.mark.parametrize("name", ["Ann Lee", "ann lee", "ANN LEE", "  Ann \n Lee "])
async def test_the_name_itself_is_exact_whatever_its_case(add, resolve, name):
    await add("Ann Lee")
    assert brief(await resolve(name)) == [("Ann Lee", "exact", 100.0)]


@pytest.mark.contract("R17.1")
async def test_all_types_are_found_unless_one_is_asked_for(add, resolve):
    await add("Paris")
    await add("Paris", entity_type="place")
    assert len(await resolve("Paris")) == 2
    assert [one["entity_type"] for one in await resolve("paris", entity_type="place")] == ["place"]


@pytest.mark.contract("R17.2")
async def test_an_alias_matches_whatever_its_case(add, resolve):
    await add("Ann Lee", "Annie", "The Boss")
    assert brief(await resolve("the boss")) == [("Ann Lee", "alias", 80.0)]


@pytest.mark.contract("R17.1", "R17.2")
async def test_an_entity_is_found_once_in_its_best_tier(add, resolve):
    await add("Ann", "ann", "Annie")
    assert brief(await resolve("ANN")) == [("Ann", "exact", 100.0)]


@pytest.mark.contract("R17.3")
@pytest.mark.parametrize("part", ["Ann", "lee", "n l", "boss", "The B"])
async def test_a_beginning_or_part_of_a_name_or_alias_matches(add, resolve, part):
    await add("Ann Lee", "The Boss")
    await add("Zed", "Zeddy")
    assert brief(await resolve(part)) == [("Ann Lee", "prefix", 50.0)]


@pytest.mark.contract("L21", "R17.3")
@pytest.mark.parametrize(
    ("name", "other"),
    [("50% off", "500 off"), ("a_b", "axb"), ("C:\\dir", "C:xdir"), ("O'Neil", 'O"Neil')],
)
async def test_every_character_of_a_name_matches_itself_alone(add, resolve, name, other):
    await add(f"the {name} shop")
    await add(f"the {other} shop")
    assert named(await resolve(name)) == [f"the {name} shop"]


@pytest.mark.contract("L21")
@pytest.mark.parametrize("wildcard", ["%", "_", "\\", "%%", "A%", "_nn", "'", '"', "A\\"])
async def test_a_wildcard_finds_only_names_that_hold_it(add, resolve, wildcard):
    await add("Ann")
    assert await resolve(wildcard, enable_fuzzy=False) == []
    await add(f"x{wildcard}y")
    assert brief(await resolve(wildcard)) == [(f"x{wildcard}y", "prefix", 50.0)]


@pytest.mark.contract("R17.1", "R17.3")
async def test_names_of_any_script_are_found(add, resolve):
    for name in ["李小龙", "Ünal Çelik", "🦄 Club", "Владимир"]:
        await add(name)
    assert brief(await resolve("ünal çelik")) == [("Ünal Çelik", "exact", 100.0)]
    assert brief(await resolve("U\u0308nal")) == [("Ünal Çelik", "prefix", 50.0)]
    assert brief(await resolve("小龙")) == [("李小龙", "prefix", 50.0)]
    assert brief(await resolve("🦄")) == [("🦄 Club", "prefix", 50.0)]
    assert brief(await resolve("ВЛАДИМИР")) == [("Владимир", "exact", 100.0)]


@pytest.mark.contract("R17.4", "L17")
async def test_a_misspelling_is_found_only_when_asked_for(add, resolve):
    await add("Jonathan Smith")
    await add("Kate", "Jonathon")
    await add("Unrelated")
    assert await resolve("Jonathn Smith") == []
    found = await resolve("Jonathn", enable_fuzzy=True)
    assert brief(found) == [("Jonathan Smith", "fuzzy", 20.0), ("Kate", "fuzzy", 20.0)]
    assert [one["fuzzy_measure"] for one in found] == ["pg_trgm", "pg_trgm"]


@pytest.mark.contract("R17.4")
async def test_earlier_tiers_keep_what_they_found(add, resolve):
    for name in ["Martin", "Martina", "Martyn"]:
        await add(name)
    found = await resolve("martin", enable_fuzzy=True)
    assert brief(found) == [
        ("Martin", "exact", 100.0),
        ("Martina", "prefix", 50.0),
        ("Martyn", "fuzzy", 20.0),
    ]
    assert [list(one) for one in found] == [
        RESULT_KEYS,
        RESULT_KEYS,
        [*RESULT_KEYS, "fuzzy_measure"],
    ]


@pytest.mark.contract("R17.4")
async def test_only_names_of_more_than_two_characters_are_matched_fuzzily(add, resolve):
    """Punctuation has no trigrams, so all of these are spelled just like the entity."""
    await add("a")
    assert await resolve("!", enable_fuzzy=True) == []
    assert await resolve("a!", enable_fuzzy=True) == []
    assert brief(await resolve("a!!", enable_fuzzy=True)) == [("a", "fuzzy", 20.0)]


@pytest.mark.contract("R17.4")
async def test_the_threshold_is_three_tenths_and_meets(add, resolve, owner):
    likeness = {}
    for name in ["abcdefgh", "abcxyz", "abcxy", "abcwxyz", "bcd", "xabc"]:
        await add(name)
        likeness[name] = await owner.fetchval("select similarity($1, 'abcde')", name)
    found = named(await resolve("abcde", enable_fuzzy=True))
    assert sorted(found) == sorted(name for name, like in likeness.items() if like >= 0.2999999)
    assert 0 < len(found) < len(likeness)


ZOO = [
    ("Jonathan Smith",),
    ("Jon Smyth", "Johnny", "J. Smith"),
    ("José Núñez", "Pepe"),
    ("Smithsonian Institution",),
    ("Ünal Çelik",),
    ("Владимир",),
    ("李小龙",),
    ("a_b-c d'e",),
    ("🦄",),
]
QUESTIONS = [
    "Jonathon Smth",
    "jose nunez",
    "Unal Celik",
    "владимер",
    "李小",
    "a b c d e",
    "Smithson Inst",
    "🦄🦄🦄",
]


@pytest.mark.contract("L17", "R17.4")
async def test_without_the_extension_the_same_candidates_are_found(add, resolve, owner):
    for name, *aliases in ZOO:
        await add(name, *aliases)
    measured = [await resolve(question, enable_fuzzy=True) for question in QUESTIONS]
    async with missing_trigrams(owner):
        again = [await resolve(question, enable_fuzzy=True) for question in QUESTIONS]
    assert [brief(one) for one in again] == [brief(one) for one in measured]
    used = {one.get("fuzzy_measure") for results in again for one in results}
    assert used - {None} == {"product"}
    assert sum(bool(results) for results in again) >= 5


@pytest.mark.contract("R17.4", "L17")
async def test_a_missing_extension_is_never_an_error(add, resolve, without_trigrams):
    await add("Martyn")
    await add("Bob", entity_type="place")
    found = await resolve("Martin", enable_fuzzy=True)
    assert [(one["canonical_name"], one["fuzzy_measure"]) for one in found] == [
        ("Martyn", "product")
    ]
    assert await resolve("Martin", enable_fuzzy=True, entity_type="place") == []
    assert await resolve("Xyz", enable_fuzzy=True) == []


@pytest.mark.contract("R17.4", "L17")
async def test_an_extension_out_of_reach_counts_as_missing(add, resolve, owner):
    await add("Martyn")
    await owner.execute("create schema elsewhere; alter extension pg_trgm set schema elsewhere")
    try:
        found = await resolve("Martin", enable_fuzzy=True)
    finally:
        await owner.execute("alter extension pg_trgm set schema public; drop schema elsewhere")
    assert [one["fuzzy_measure"] for one in found] == ["product"]


@pytest.mark.contract("R17.5")
async def test_a_topic_lifts_the_entity_whose_facts_speak_of_it(add, resolve, learn):
    cook, pilot = await add("Alex Adams"), await add("Alex Zhou")
    await learn(cook, "works_at", "a bakery")
    await learn(pilot, "works_as", "an airline pilot")
    found = await resolve("Alex", context_hints={"topic": "airline pilots"})
    assert brief(found) == [("Alex Zhou", "prefix", 63.3333), ("Alex Adams", "prefix", 50.0)]


@pytest.mark.contract("R17.5")
async def test_predicates_count_as_well_as_content(add, resolve, learn):
    someone = await add("Alex")
    await learn(someone, "birthday", "May")
    (found,) = await resolve("Alex", context_hints={"topic": "birthday"})
    assert found["score"] == 110.0


@pytest.mark.contract("R17.5")
@pytest.mark.parametrize("company", ["Sara", ["Sara"], ("Bob", "Sara")])
async def test_those_mentioned_together_count(add, resolve, learn, company):
    someone = await add("Alex")
    await learn(someone, "sister", "Sara")
    (found,) = await resolve("Alex", context_hints={"mentioned_with": company})
    assert found["score"] == {1: 110.0, 2: 106.6667}[2 if isinstance(company, tuple) else 1]


@pytest.mark.contract("R17.5")
async def test_full_overlap_is_worth_twenty_and_none_nothing(add, resolve, learn):
    someone, other = await add("Alex"), await add("Alex B")
    await learn(someone, "likes", "tea")
    await learn(someone, "plays", "chess")
    await learn(other, "hates", "coffee")
    found = await resolve("Alex", context_hints={"topic": "likes tea and plays chess"})
    assert brief(found) == [("Alex", "exact", 120.0), ("Alex B", "prefix", 50.0)]


@pytest.mark.contract("R17.5")
async def test_much_knowledge_does_not_hide_the_fact_that_fits(add, resolve, learn):
    someone = await add("Alex")
    await learn(someone, "hobby", "climbing")
    for i in range(20):
        await learn(someone, f"fact {i}", f"matter{i} thing{i} word{i}")
    (found,) = await resolve("Alex", context_hints={"topic": "climbing"})
    assert found["score"] == 110.0


async def add_newer_facts(owner, entity_id, first, last):
    await owner.execute(
        "insert into facts (tenant_id, subject, predicate, content, entity_id, created_at) "
        "select 'acme', 's', 'p' || i, 'c', $1, '2030-01-01' from generate_series($2::int, $3) i",
        entity_id,
        first,
        last,
    )


@pytest.mark.contract("R17.5")
async def test_the_newest_five_hundred_facts_count(add, resolve, learn, owner):
    someone, hints = await add("Alex"), {"topic": "climbing"}
    await learn(someone, "hobby", "climbing")
    await add_newer_facts(owner, someone, 1, 499)
    assert brief(await resolve("Alex", context_hints=hints)) == [("Alex", "exact", 110.0)]
    await add_newer_facts(owner, someone, 500, 500)
    assert brief(await resolve("Alex", context_hints=hints)) == [("Alex", "exact", 100.0)]


@pytest.mark.contract("R17.5")
async def test_only_facts_that_hold_count(add, resolve, learn, owner):
    someone = await add("Alex")
    await learn(someone, "pet", "cat")
    await owner.execute("update facts set validity = 'retracted'")
    (found,) = await resolve("Alex", context_hints={"topic": "cat"})
    assert found["score"] == 100.0


@pytest.mark.contract("R17.5")
@pytest.mark.parametrize(
    "hints", [None, {}, {"topic": ""}, {"topic": None, "mentioned_with": []}, {"topic": "the of"}]
)
async def test_hints_that_say_nothing_change_nothing(add, resolve, learn, hints):
    someone = await add("Alex")
    await learn(someone, "the", "of the")
    assert brief(await resolve("Alex", context_hints=hints)) == [("Alex", "exact", 100.0)]


@pytest.mark.contract("R17.6")
async def test_domain_scores_are_added(add, resolve, learn):
    one, two, unrelated = await add("Alex A"), await add("Alex B"), await add("Bob")
    await learn(two, "hobby", "climbing")
    hints = {
        "domain_scores": {str(one): -7.25, str(two): 12.00004, str(unrelated): 99},
        "topic": "climbing",
    }
    found = await resolve("Alex", context_hints=hints)
    assert brief(found) == [("Alex B", "prefix", 72.0), ("Alex A", "prefix", 42.75)]


@pytest.mark.contract("R17.6")
async def test_an_entity_with_a_domain_score_is_not_cut_off(add, resolve):
    for i in range(MAX_CANDIDATES + 5):
        last = await add(f"Alex {i:03}")
    found = await resolve("Alex", context_hints={"domain_scores": {str(last): 1}})
    assert len(found) == MAX_CANDIDATES
    assert found[0]["entity_id"] == str(last)


@pytest.mark.parametrize(
    ("hints", "complaint"),
    [
        ({"domain_scores": {str(uuid.UUID(int=1)): float("nan")}}, "domain_scores: found nan"),
        ({"domain_scores": {str(uuid.UUID(int=1)): float("inf")}}, "domain_scores: found inf"),
        ({"domain_scores": {str(uuid.UUID(int=1)): "3"}}, "domain_scores: found '3'"),
        ({"domain_scores": {str(uuid.UUID(int=1)): True}}, "domain_scores: found True"),
        ({"domain_scores": {str(uuid.UUID(int=1)): 10**400}}, "domain_scores: found 1000"),
        ({"domain_scores": {"Ann": 1}}, "domain_scores: found 'Ann'; valid is a UUID"),
        ({"domain_scores": [1]}, "domain_scores: found a list"),
        ({"topic": 3}, "topic: found a int; valid is a text"),
        ({"topic": ["a", "b"]}, "topic: found 2 texts"),
        ({"topic": "x" * 2001}, "topic: found a text of 2001 characters"),
        ({"mentioned_with": [1]}, "mentioned_with: found a list; valid is a list of texts"),
        ({"mentioned_with": ["x"] * 101}, "mentioned_with: found 101 texts"),
        ({"subject": "x"}, "found 'subject'; valid are topic, mentioned_with, domain_scores"),
    ],
)
async def test_hints_that_make_no_sense_are_refused(resolve, hints, complaint):
    with pytest.raises(InvalidInput, match=f"context_hints.*{complaint}"):
        await resolve("Alex", context_hints=hints)


@pytest.mark.contract("R17.7")
async def test_results_are_ordered_by_score_then_name_then_id(add, resolve):
    person = await add("Alex", entity_type="person")
    place = await add("Alex", entity_type="place")
    await add("Zoe", "Alex")
    await add("Alexis")
    await add("Alexa")
    found = await resolve("alex")
    assert brief(found) == [
        ("Alex", "exact", 100.0),
        ("Alex", "exact", 100.0),
        ("Zoe", "alias", 80.0),
        ("Alexa", "prefix", 50.0),
        ("Alexis", "prefix", 50.0),
    ]
    assert [one["entity_id"] for one in found[:2]] == sorted([str(person), str(place)])


@pytest.mark.contract("R17.7")
async def test_each_result_holds_exactly_what_is_promised(add, resolve, learn):
    entity_id = await add("Alex", "Lex")
    await learn(entity_id, "hobby", "ice climbing")
    assert await resolve("alex", context_hints={"topic": "climbing"}) == [
        {
            "entity_id": str(entity_id),
            "canonical_name": "Alex",
            "entity_type": "person",
            "score": 106.6667,
            "name_match": "exact",
            "aliases": ["Lex"],
        }
    ]


@pytest.mark.contract("R17.8")
async def test_nothing_found_is_an_empty_list_and_nothing_is_created(resolve, owner):
    assert await resolve("Nobody", enable_fuzzy=True) == []
    assert await owner.fetchval("select count(*) from entities") == 0
    assert await owner.fetchval("select count(*) from memory_events") == 0


@pytest.mark.contract("R17.1", "R17.4")
async def test_an_entity_merged_away_is_never_found(add, memory, lineage, owner, resolve):
    old, new = await add("Martyn"), await add("Bob")
    await merge_entities(memory, old, new, lineage)
    await owner.execute("update entities set aliases = '{}' where id = $1", new)
    assert await resolve("Martyn") == []
    assert await resolve("mart") == []
    assert await resolve("Martin", enable_fuzzy=True) == []


@pytest.mark.contract("R17.4", "L17")
async def test_an_entity_merged_away_is_not_measured_either(
    add, memory, lineage, owner, resolve, without_trigrams
):
    old, new = await add("Martyn"), await add("Bob")
    await merge_entities(memory, old, new, lineage)
    await owner.execute("update entities set aliases = '{}' where id = $1", new)
    assert await resolve("Martin", enable_fuzzy=True) == []


@pytest.mark.contract("L1")
async def test_another_tenants_entities_and_facts_are_never_seen(
    add, memory, lineage, stranger, learn, owner
):
    ours = await add("Martin")
    await learn(ours, "hobby", "climbing")
    hints = {"topic": "climbing", "domain_scores": {str(ours): 50}}
    for name in ("Martin", "mart", "Martyn"):
        found = await resolve_entity(memory, name, stranger, context_hints=hints, enable_fuzzy=True)
        assert found == []


@pytest.mark.parametrize("name", ["", "  ", "\x00", "x" * 201])
async def test_names_that_cannot_be_are_refused(resolve, name):
    with pytest.raises(InvalidInput, match="^name: found .*200"):
        await resolve(name)


async def test_an_unknown_type_is_refused(resolve):
    with pytest.raises(InvalidInput, match="entity_type: found 'robot'; valid are person"):
        await resolve("Ann", entity_type="robot")


async def test_ten_thousand_entities_are_bounded_and_told_apart(memory, owner, lineage, resolve):
    await owner.execute(
        "insert into entities (tenant_id, canonical_name, entity_type, aliases) "
        "select $1, 'person number ' || i, 'person', array['nick' || i] "
        "from generate_series(1, 10000) i",
        lineage.tenant_id,
    )
    assert brief(await resolve("nick7777")) == [("person number 7777", "alias", 80.0)]
    found = await resolve("Person Number 77", enable_fuzzy=True)
    assert len(found) == MAX_CANDIDATES
    assert brief(found)[0] == ("person number 77", "exact", 100.0)
    assert {one["name_match"] for one in found[1:]} == {"prefix"}
    assert await get_entity(memory, uuid.UUID(found[0]["entity_id"]), Lineage("rival")) is None
