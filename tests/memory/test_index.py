"""The index beside the memories: always what they say, and found in any script and spelling."""

import math
import random
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from butlers.errors import ButlersError
from butlers.memory.flows import (
    correct,
    entities,
    entity_merge,
    feedback,
    forget,
    recall,
    reembed,
    remember,
)
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.history import _find
from butlers.memory.flows.lifecycle import decay_sweep, episode_retention
from butlers.memory.model import MemoryRef, MemoryType, NewEpisode, NewFact, NewRule, SearchMode
from butlers.memory.store import search
from butlers.memory.store.search import Filter, IndexQuery, Limits
from conftest import ToyEmbedder
from memory.index import differences

WORDS = (
    "tea", "boat", "cello", "harbour", "lantern", "café", "Straße", "книга", "東京タワー",
    "가격은", "redis", "error",
)  # fmt: skip
STEPS = 60


class OtherToy(ToyEmbedder):
    """Another model."""

    version = "2"


class Walker:
    """Somebody who does, by chance, whatever can be done to memories."""

    def __init__(self, memory, lineage, clock, seed):
        self.memory, self.lineage, self.clock = memory, lineage, clock
        self.chance, self.stored, self.entities = random.Random(seed), [], []
        memory.embedders = lambda version: OtherToy() if version.version == "2" else None

    def text(self):
        return " ".join(self.chance.choices(WORDS, k=self.chance.randint(1, 9)))

    def some(self, kind=None):
        return self.chance.choice([one for one in self.stored if kind in (None, one[0])])

    async def store_fact(self):
        about = self.chance.choice([None, *self.entities])
        key = self.chance.choice("abc"), self.chance.choice("pqrs")
        new = NewFact(*key, self.text(), entity_id=about)
        self.stored.append(("fact", (await remember.store_fact(self.memory, new, self.lineage)).id))

    async def store_rule(self):
        new = NewRule(self.text())
        self.stored.append(("rule", (await remember.store_rule(self.memory, new, self.lineage)).id))

    async def store_episode(self):
        new = NewEpisode(self.text(), "general", session_id=uuid4())
        stored = await remember.store_episode(self.memory, new, self.lineage)
        self.stored.append(("episode", stored.id))

    async def know_somebody(self):
        name, more = f"Ann {len(self.entities)}", ["Annie"]
        new = (name, "person", more, None)
        self.entities.append(await entities.create_entity(self.memory, *new, self.lineage))

    async def merge(self):
        one, other = self.chance.sample(self.entities, 2)
        await entity_merge.merge_entities(self.memory, one, other, self.lineage)
        self.entities.remove(one)

    async def forget(self):
        await forget.forget_memory(self.memory, *self.some(), self.lineage)

    async def restore(self):
        await forget.restore_memory(self.memory, *self.some(), self.lineage)

    async def confirm(self):
        await feedback.confirm_memory(self.memory, *self.some(), self.lineage)

    async def correct(self):
        await correct.correct_fact(self.memory, self.some("fact")[1], self.text(), self.lineage)

    async def harm(self):
        _, rule = self.some("rule")
        for _ in range(4):
            await feedback.mark_harmful(self.memory, rule, "it hurt", self.lineage)

    async def use(self):
        await recall.recall(self.memory, CandidateQuery(self.text()), 5, self.lineage)

    async def wait(self):
        self.clock.advance(days=self.chance.choice([1, 9]))
        await decay_sweep.run_decay_sweep(self.memory, self.lineage)

    async def clean_up(self):
        await episode_retention.run_episode_cleanup(self.memory, self.lineage)

    async def lay_aside(self):
        await reembed.start_reembedding(self.memory, OtherToy(), self.lineage)

    async def move(self):
        await reembed.reembed(self.memory, OtherToy(), self.lineage)

    async def go_back(self):
        await reembed.revert_reembedding(self.memory, self.lineage)

    async def settle(self):
        await reembed.discard_previous(self.memory, self.lineage)


STORING = (Walker.store_fact, Walker.store_rule, Walker.store_episode, Walker.know_somebody)
DOING = (
    Walker.forget, Walker.restore, Walker.confirm, Walker.correct, Walker.harm, Walker.use,
    Walker.merge, Walker.wait, Walker.clean_up, Walker.lay_aside, Walker.move, Walker.go_back,
    Walker.settle,
)  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whatever_is_done_the_index_says_what_the_memories_say(
    memory, lineage, clock, owner, seed
):
    walker, done = Walker(memory, lineage, clock, seed), set()
    for number in range(STEPS):
        step = walker.chance.choice(STORING if number < 12 else (*STORING, *DOING, *DOING))
        try:
            await step(walker)
            done.add(step)
        except (ButlersError, IndexError, ValueError):
            pass  # what may not be done changes nothing, in the index as elsewhere
        assert await differences(owner) == [], (number, step.__name__)
    assert len(done) >= 12


async def test_counting_a_use_does_not_touch_the_index(memory, lineage, owner):
    await remember.store_fact(memory, NewFact("Ann", "likes", "tea"), lineage)
    before = await owner.fetch("select ctid, xmin from index_memories")
    await recall.recall(memory, CandidateQuery("tea"), 5, lineage)
    await memory.uses.settle_all()
    assert await owner.fetchval("select reference_count from facts") == 1
    assert await owner.fetch("select ctid, xmin from index_memories") == before


async def test_a_session_counts_its_places_where_nobody_says_them(memory, lineage, owner):
    session = uuid4()
    for text in ("one", "two", "three"):
        await remember.store_episode(
            memory, NewEpisode(text, "general", session_id=session), lineage
        )
    await remember.store_episode(memory, NewEpisode("alone", "general"), lineage)
    rows = await owner.fetch("select place from index_memories order by doc")
    assert [row["place"] for row in rows] == [1, 2, 3, None]
    await owner.execute("update episodes set place = 7 where content = 'two'")
    await owner.execute("update episodes set expires_at = now() where content = 'three'")
    rows = await owner.fetch("select place from index_memories order by doc")
    assert [row["place"] for row in rows] == [1, 7, 3, None]


async def test_people_are_known_by_every_word_of_their_names_and_roles_are_not(
    memory, lineage, owner
):
    who = ("Ann-Marie O'Neil", "person", ["Annie", "Bo"], None)
    person = await entities.create_entity(memory, *who, lineage)
    await entities.create_entity(memory, "Acme Works", "organization", None, None, lineage)
    await entities.update_entity(memory, person, lineage, aliases=["Änne"])
    for author in ("Caroline", "user", "Assistant", None):
        await owner.execute(
            "insert into episodes (tenant_id, butler, content, author) "
            "values ('acme', 'general', 'x', $1)",
            author,
        )
    await owner.execute("update episodes set author = 'Melanie' where author = 'user'")
    rows = await owner.fetch("select name from index_names order by name")
    names = {"ann", "marie", "neil", "annie", "änne", "caroline", "melanie"}
    assert {row["name"] for row in rows} == names
    assert (await memory.standing(lineage)).names == names


async def test_a_memo_of_a_tenant_is_renewed_when_a_search_says_so(memory, lineage):
    assert (await memory.standing(lineage)).versions == ()
    fact = NewFact("Ann", "likes", "green tea")
    stored = await remember.store_fact(memory, fact, lineage)
    [found] = await recall.search_memories(
        memory, CandidateQuery("green tea"), SearchMode.SEMANTIC, 5, lineage
    )
    assert found["id"] == str(stored.id)
    assert len((await memory.standing(lineage)).versions) == 1


@pytest.mark.contract("R05.6", "R07.4")
async def test_what_is_told_is_what_finding_tells(memory, lineage, clock, owner):
    person = await entities.create_entity(memory, "Ann", "person", None, None, lineage)
    said = datetime(2025, 3, 4, 5, 6, 7, 89, tzinfo=UTC)
    fact = NewFact("Ann", "likes", "tea", entity_id=person, said_at=said, importance=7)
    refs = [
        MemoryRef(MemoryType.FACT, (await remember.store_fact(memory, fact, lineage)).id),
        MemoryRef(MemoryType.RULE, (await remember.store_rule(memory, NewRule("r"), lineage)).id),
    ]
    new = NewEpisode("e", "general", session_id=uuid4(), metadata={"at_at": "x", "n": 1})
    episode = await remember.store_episode(memory, new, lineage)
    refs.append(MemoryRef(MemoryType.EPISODE, episode.id))
    clock.advance(days=3)
    now = clock.now
    told = await search.load_memories(memory.database, lineage.tenant_id, refs, now)
    async with memory.transaction(lineage) as tx:
        for ref in refs:
            row = await _find(tx, ref, now)
            assert told[ref] == dict(row)
            for name, value in row.items():
                assert isinstance(value, type(told[ref][name])), name


async def found(memory, lineage, text):
    rows = await recall.search_memories(
        memory, CandidateQuery(text), SearchMode.KEYWORD, 10, lineage
    )
    return [row["content"] for row in rows]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("她每天早上喝绿茶", "谁喝绿茶？"),
        ("東京タワーは333メートルです", "タワーの高さ"),
        ("茶", "茶"),
        ("커피 가격은 오천 원입니다", "가격이 얼마예요"),
        ("Она купила новую книгу вчера", "какие книги"),
        ("Der Vertrag wurde in der Straße unterschrieben", "STRASSE"),
        ("Die Bücher liegen im Regal", "Bücherregal oder Bucher"),
        ("meets at the Café Zoë", "cafe zoe"),
        ("runs on kubernetes", "kuber"),
        ("written in typescript", "typscript"),
        ("an error in the log", "eror"),
        ("the redis cache", "Reedis"),
        ("the calendar is shared", "calednar"),
        ("die Versicherung ist bezahlt", "Versicherungen"),
        ("see https://example.org/a_b for foo_bar.baz", "foo_bar.baz"),
        ("mail ann@example.org about it", "ann@example.org"),
        ("flight LH454 at 10:45", "lh454"),
    ],
)
async def test_words_are_found_in_any_script_and_nearly_any_spelling(memory, lineage, said, asked):
    await remember.store_fact(memory, NewFact("x", "y", "something else entirely"), lineage)
    await remember.store_fact(memory, NewFact("x", "z", said), lineage)
    assert await found(memory, lineage, asked) == [said]


@pytest.mark.parametrize("asked", ["tee", "xylophone", "2027", "te", "teapots"])
async def test_what_is_not_nearly_the_same_word_is_not_found(memory, lineage, asked):
    await remember.store_fact(memory, NewFact("x", "y", "tea 2026"), lineage)
    assert await found(memory, lineage, asked) == []


async def test_a_word_that_is_there_wins_over_one_that_stands_in(memory, lineage):
    await remember.store_fact(memory, NewFact("x", "y", "kubernetes"), lineage)
    await remember.store_fact(memory, NewFact("x", "z", "kuber"), lineage)
    assert await found(memory, lineage, "kuber") == ["kuber"]


async def test_a_look_says_what_it_knows_of_the_question(memory, lineage):
    for number, text in enumerate(("green tea", "black tea with milk", "kubernetes")):
        await remember.store_fact(memory, NewFact("s", f"p{number}", text), lineage)
    standing = await memory.standing(lineage)
    asked = IndexQuery(standing.current_id, 0, 3, "milk tea and kuber zebra", bare="tea")
    where = Filter(tuple(MemoryType), None, 0.2, memory.now())
    looked = await search.find_candidates(
        memory.database, lineage.tenant_id, asked, where, Limits(10, 10_000)
    )
    header = looked.header
    assert (header.words, header.bare_words) == (["milk", "tea", "kuber", "zebra"], ["tea"])
    assert (header.counts, header.total, header.stale) == ([1, 2, 1, 0], 3, False)
    weights = [math.log(1 + (3 - count + 0.5) / (count + 0.5)) for count in header.counts]
    assert header.weights.tolist() == pytest.approx(weights)
    best = looked.word_places.index(1)
    assert (looked.impacts[:, best] > 0).tolist() == [True, True, False, False]
    assert looked.near_places == [None] * 3


async def test_the_best_by_words_are_those_of_all_scored(memory, lineage, owner):
    """However few are looked up first: the same as adding everything up."""
    chance = random.Random(3)
    for number in range(150):
        text = " ".join(chance.choices(["tea", "boat", "cello", "harbour", "lamp"], k=6))
        scope = "health" if number % 3 else "global"
        await remember.store_fact(memory, NewFact("s", f"p{number}", text, scope=scope), lineage)
    rows = await owner.fetch(
        "with w as (select word, ln(1 + (150 - count(*) + 0.5) / (count(*) + 0.5)) as weight "
        "from index_words where word in ('tea', 'cello') group by word) "
        "select memory_id, sum(impact * weight) as score from index_words join w using (word) "
        "join index_memories using (tenant_id, doc) where scope = 'global' "
        "group by memory_id, doc order by score desc, doc desc limit 7"
    )
    query = CandidateQuery("tea cello", scope="general")
    got = await recall.search_memories(memory, query, SearchMode.KEYWORD, 7, lineage)
    assert [one["id"] for one in got] == [str(row["memory_id"]) for row in rows]
    assert [one["rank"] for one in got] == pytest.approx([row["score"] for row in rows])


async def test_a_tenant_beside_a_large_one_reads_its_own_vectors_alone(owner):
    vector = str([1.0] * 384)
    async with owner.transaction():
        await owner.execute("set local plan_cache_mode = force_generic_plan")
        for tenant, many in (("large", 2000), ("small", 3)):
            await owner.execute(
                "insert into index_vectors (tenant_id, version_id, doc, embedding) "
                "select $1, $2, doc, $3::text::halfvec from generate_series(1, $4::int) as doc",
                tenant, UUID(int=1), vector, many,
            )  # fmt: skip
        await owner.execute("analyze index_vectors")
        scans = "select seq_scan from pg_stat_xact_user_tables where relname = 'index_vectors'"
        before = await owner.fetchval(scans)
        near = "select cardinality((nearest_exact($1, $2, $3::text::halfvec, 5)).docs)"
        assert await owner.fetchval(near, "small", UUID(int=1), vector) == 3
        assert await owner.fetchval(scans) == before
