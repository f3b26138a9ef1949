"""Moving a live memory to another embedding model, and back."""

import asyncio
import re
from dataclasses import replace

import pytest

from butlers.errors import Conflict, InvalidInput, NotFound, Unavailable
from butlers.memory.flows import candidates, feedback, recall, reembed, remember, vectors
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.lifecycle import episode_retention
from butlers.memory.flows.portable import embed_brought
from butlers.memory.flows.reembed import (
    discard_previous,
    finish_reembedding,
    reembed_all,
    reembedding_status,
    revert_reembedding,
    start_reembedding,
)
from butlers.memory.handle import UnitOfWork
from butlers.memory.model import NewEpisode, NewFact, NewRule, SearchMode, VersionState
from butlers.memory.store import embeddings
from conftest import ToyEmbedder
from memory.audit_stream import events
from memory.index import differences

TEXTS = [
    "Ann likes green tea",
    "Bob drives a red car",
    "Carla plays the cello",
    "tea is served at five",
    "offer tea to guests",
    "Dan called about the boat",
]
ASKED = "green tea for guests"


class OtherToy(ToyEmbedder):
    """A model of its own: the same words, other directions."""

    version = "2"

    def embed(self, text):
        return super().embed(re.sub(r"\w+", lambda word: f"other{word[0].lower()}", text or " "))


class CountingToy(OtherToy):
    """Remembers what it embedded, and may do something before each batch."""

    def __init__(self, before=None):
        self.texts, self.before = [], before

    async def embed_batch_async(self, texts):
        if self.before is not None:
            await self.before(texts)
        self.texts += texts
        return self.embed_batch(texts)


ONE, TWO = ToyEmbedder(), OtherToy()


@pytest.fixture
def memory(memory):
    """A memory that can have both models; the first is the configured one."""
    return with_models(memory, ONE, TWO)


def with_models(memory, *models):
    known = {(model.model, model.version): model for model in models}
    return replace(
        memory,
        embedder=lambda: models[0],
        embedders=lambda version: known.get((version.model, version.version)),
    )


@pytest.fixture
async def filled(memory, lineage):
    """The texts as two facts, an episode and three rules, in this order."""
    await remember.store_fact(memory, NewFact("Ann", "likes", "green tea"), lineage)
    await remember.store_fact(memory, NewFact("Bob", "drives", "a red car"), lineage)
    await remember.store_episode(memory, NewEpisode(TEXTS[2], "general"), lineage)
    for text in TEXTS[3:]:
        await remember.store_rule(memory, NewRule(text), lineage)
    return memory


def searchable(row):
    if row["memory_type"] == "fact":
        return f"{row['subject']} {row['predicate']} {row['content']}"
    return row["content"]


async def nearness(memory, lineage, question=ASKED):
    """How near each text was found to be, by meaning alone."""
    found = await recall.search_memories(
        memory, CandidateQuery(question, min_confidence=0), SearchMode.SEMANTIC, 100, lineage
    )
    assert len({row["id"] for row in found}) == len(found), "a memory was found twice"
    return {searchable(row): pytest.approx(row["similarity"], abs=1e-4) for row in found}


def by(model, texts=TEXTS, question=ASKED):
    """How near each text is to the question, both by one model."""
    asked = model.embed(question)
    return {
        text: sum(a * b for a, b in zip(asked, model.embed(text), strict=True)) for text in texts
    }


async def versions(memory, lineage):
    async with memory.transaction(lineage) as tx:
        return await embeddings.find_versions(tx)


async def states(memory, lineage):
    return {v.version: str(v.state) for v in await versions(memory, lineage)}


async def aside(owner):
    """How many vectors lie aside."""
    tables = ("episode_vectors", "fact_vectors", "rule_vectors")
    return sum([await owner.fetchval(f"select count(*) from {table}") for table in tables])


# Recording


@pytest.mark.contract("R31.1")
async def test_every_vector_names_the_model_that_made_it(filled, lineage, owner):
    (version,) = await versions(filled, lineage)
    assert (version.model, version.version, version.dimensions) == ("toy", "1", 384)
    assert version.state is VersionState.CURRENT
    for table in ("episodes", "facts", "rules"):
        used = await owner.fetch(f"select distinct embedding_version_id from {table}")
        assert [row[0] for row in used] == [version.id]


# The move


@pytest.mark.contract("R31.2", "L22")
async def test_searches_are_answered_by_one_model_before_during_and_after(filled, lineage, owner):
    assert await nearness(filled, lineage) == by(ONE)

    started = await start_reembedding(filled, TWO, lineage)
    assert (started.embedded, started.current) == (6, False)
    assert await states(filled, lineage) == {"1": "current", "2": "building"}
    assert await nearness(filled, lineage) == by(ONE)

    finished = await finish_reembedding(filled, lineage)
    assert (finished.version_id, finished.embedded) == (started.version_id, 0)
    assert await states(filled, lineage) == {"1": "previous", "2": "current"}
    assert await nearness(filled, lineage) == by(TWO)

    assert await discard_previous(filled, lineage) == 6
    assert await states(filled, lineage) == {"1": "aside", "2": "current"}
    assert await nearness(filled, lineage) == by(TWO)
    assert await aside(owner) == 0


async def test_the_two_models_really_differ():
    assert by(ONE) != {text: pytest.approx(near, abs=1e-3) for text, near in by(TWO).items()}


async def test_an_import_leaves_the_vectors_to_go_back_to(filled, lineage, owner):
    await start_reembedding(filled, TWO, lineage)
    await finish_reembedding(filled, lineage)
    before = await owner.fetchval("select count(*) from facts where embedding is not null")
    await embed_brought(filled, lineage, vectors.ignore_progress)
    assert await owner.fetchval("select count(*) from fact_vectors") == before
    await revert_reembedding(filled, lineage)
    assert await nearness(filled, lineage) == by(ONE)


@pytest.mark.contract("R31.2")
async def test_whoever_searches_meanwhile_sees_one_model_or_the_other(filled, lineage, monkeypatch):
    monkeypatch.setattr(vectors, "BATCH", 1)
    monkeypatch.setattr(vectors, "SETTLED", 1)
    seen, over = [], False

    async def keep_searching():
        while not over:
            seen.append(await nearness(filled, lineage))

    searching = asyncio.create_task(keep_searching())
    await reembed.reembed(filled, TWO, lineage)
    await discard_previous(filled, lineage)
    over = True
    await searching
    assert len(seen) > 3
    assert all(found in (by(ONE), by(TWO)) for found in seen)
    assert seen[0] == by(ONE)
    assert await nearness(filled, lineage) == by(TWO)


@pytest.mark.contract("R31.2")
async def test_a_run_cut_short_goes_on_where_it_was(filled, lineage, owner, monkeypatch):
    monkeypatch.setattr(vectors, "BATCH", 1)

    async def die(texts):
        if len(dying.texts) == 3:
            raise KeyboardInterrupt

    dying = CountingToy(die)
    with pytest.raises(KeyboardInterrupt):
        await reembed.reembed(with_models(filled, ONE, dying), dying, lineage)
    assert await aside(owner) == 3
    assert await nearness(filled, lineage) == by(ONE)

    fresh = CountingToy()
    report = await reembed.reembed(with_models(filled, ONE, fresh), fresh, lineage)
    assert (report.embedded, report.current) == (3, True)
    assert sorted(dying.texts + fresh.texts) == sorted(TEXTS)
    assert await nearness(filled, lineage) == by(TWO)


async def test_progress_counts_up_to_all_there_is(filled, lineage, monkeypatch):
    monkeypatch.setattr(vectors, "BATCH", 2)
    told = []
    await start_reembedding(filled, TWO, lineage, lambda done, total: told.append((done, total)))
    assert told == [(0, 6), (1, 6), (3, 6), (5, 6), (6, 6)]


@pytest.mark.contract("R31.2")
async def test_what_is_stored_meanwhile_is_found_after_the_move(filled, lineage, monkeypatch):
    monkeypatch.setattr(vectors, "BATCH", 2)
    daemon = with_models(filled, ONE, TWO)
    stored = []

    async def store_one(texts):
        if len(stored) == 6:
            return
        stored.append(f"rule {len(stored)} about tea")
        await remember.store_rule(daemon, NewRule(stored[-1]), lineage)
        assert await nearness(daemon, lineage) == by(ONE, TEXTS + stored)

    busy = CountingToy(store_one)
    await start_reembedding(with_models(filled, ONE, busy), busy, lineage)
    assert len(stored) == 6
    await finish_reembedding(filled, lineage)
    assert await nearness(filled, lineage) == by(TWO, TEXTS + stored)


@pytest.mark.contract("R31.2")
async def test_the_move_waits_for_who_is_storing(filled, lineage):
    await start_reembedding(filled, TWO, lineage)
    new = NewFact("Eve", "drinks", "tea")
    [embedding] = await filled.embed([new.searchable_text], lineage)
    async with filled.transaction(lineage) as tx:
        await remember.store_fact_in(UnitOfWork(filled, tx, lineage), new, embedding)
        moving = asyncio.create_task(finish_reembedding(filled, lineage))
        await asyncio.sleep(0.3)
        assert not moving.done()
    assert (await moving).embedded == 1
    assert await nearness(filled, lineage) == by(TWO, [*TEXTS, "Eve drinks tea"])


async def test_what_was_embedded_before_the_move_and_stored_after_it_is_healed(filled, lineage):
    new = NewFact("Eve", "drinks", "tea")
    [late] = await filled.embed([new.searchable_text], lineage)
    await reembed.reembed(filled, TWO, lineage)
    async with filled.transaction(lineage) as tx:
        await remember.store_fact_in(UnitOfWork(filled, tx, lineage), new, late)
    found = await recall.search_memories(
        filled, CandidateQuery("Eve"), SearchMode.KEYWORD, 10, lineage
    )
    assert len(found) == 1
    healed = await reembed.reembed(filled, TWO, lineage)
    assert (healed.embedded, healed.current) == (1, True)
    assert await nearness(filled, lineage) == by(TWO, [*TEXTS, "Eve drinks tea"])


@pytest.mark.contract("R31.2", "R03.5")
async def test_a_rule_reworded_meanwhile_is_embedded_as_it_reads_now(filled, lineage, owner):
    rule = await owner.fetchval("select id from rules where content = $1", TEXTS[4])
    await start_reembedding(filled, TWO, lineage)
    for reason in ("it spilled", "it burned", "it stained"):
        await feedback.mark_harmful(filled, rule, reason, lineage)
    warning = await owner.fetchval("select content from rules where id = $1", rule)
    assert warning.startswith("ANTI-PATTERN")
    assert (await finish_reembedding(filled, lineage)).embedded == 1
    texts = [*TEXTS[:4], warning, TEXTS[5]]
    assert await nearness(filled, lineage) == by(TWO, texts)


async def test_a_vector_of_an_older_wording_is_not_laid_aside(filled, lineage, owner):
    async def reword(texts):
        if TEXTS[4] in texts:
            change = "update rules set content = 'serve coffee' where content = $1"
            await owner.execute(change, TEXTS[4])

    slow = CountingToy(reword)
    await start_reembedding(with_models(filled, ONE, slow), slow, lineage)
    assert await owner.fetchval("select count(*) from rule_vectors") == 2
    await finish_reembedding(filled, lineage)
    texts = [*TEXTS[:4], "serve coffee", TEXTS[5]]
    assert await nearness(filled, lineage) == by(TWO, texts)


async def test_an_episode_that_goes_takes_its_vectors_along(filled, lineage, owner, clock):
    await start_reembedding(filled, TWO, lineage)
    clock.advance(days=8)
    await episode_retention.run_episode_cleanup(filled, lineage)
    assert await owner.fetchval("select count(*) from episode_vectors") == 0
    await finish_reembedding(filled, lineage)


async def test_memories_without_a_vector_get_one(memory, lineage, owner):
    await owner.execute("insert into rules (tenant_id, content) values ('acme', 'offer tea')")
    assert await nearness(memory, lineage) == {}
    report = await reembed.reembed(memory, ONE, lineage)
    assert (report.embedded, report.current) == (1, True)
    assert await nearness(memory, lineage) == by(ONE, ["offer tea"])


async def test_moving_tells_the_audit_stream_nothing(filled, lineage, owner):
    """No memory changes by it: what it says, when and how sure stay the same."""
    before = await events(owner)
    await reembed.reembed(filled, TWO, lineage)
    await discard_previous(filled, lineage)
    assert await events(owner) == before


# Other processes


@pytest.mark.contract("R31.2")
async def test_another_process_follows_the_move(filled, lineage):
    daemon = with_models(filled, ONE, TWO)
    assert await nearness(daemon, lineage) == by(ONE)
    await reembed.reembed(filled, TWO, lineage)
    await remember.store_rule(daemon, NewRule("pour the tea"), lineage)
    assert await nearness(daemon, lineage) == by(TWO, [*TEXTS, "pour the tea"])
    assert await nearness(filled, lineage) == by(TWO, [*TEXTS, "pour the tea"])


@pytest.mark.contract("R31.2")
async def test_the_setting_alone_moves_nothing(filled, lineage):
    reconfigured = with_models(filled, TWO, ONE)
    assert await nearness(reconfigured, lineage) == by(ONE)
    await remember.store_rule(reconfigured, NewRule("pour the tea"), lineage)
    assert await nearness(filled, lineage) == by(ONE, [*TEXTS, "pour the tea"])


@pytest.mark.contract("R31.2")
async def test_where_the_old_model_is_gone_the_new_one_serves_and_can_be_moved_to(filled, lineage):
    alone = with_models(filled, TWO)
    assert await nearness(alone, lineage) == {}
    await remember.store_rule(alone, NewRule("pour the tea"), lineage)
    assert await states(alone, lineage) == {"1": "current", "2": "aside"}
    assert await nearness(alone, lineage) == by(TWO, ["pour the tea"])
    assert await nearness(filled, lineage) == by(ONE)
    assert (await reembed.reembed(alone, TWO, lineage)).embedded == 6
    assert await nearness(alone, lineage) == by(TWO, [*TEXTS, "pour the tea"])


# The way back


@pytest.mark.contract("R31.2")
async def test_the_way_back_takes_along_what_was_stored_since(filled, lineage):
    await reembed.reembed(filled, TWO, lineage)
    await remember.store_rule(filled, NewRule("pour the tea"), lineage)
    report = await revert_reembedding(filled, lineage)
    assert (report.embedded, report.current) == (1, True)
    assert await states(filled, lineage) == {"1": "current", "2": "previous"}
    assert await nearness(filled, lineage) == by(ONE, [*TEXTS, "pour the tea"])
    # And forth again, which takes nothing but the change of states.
    assert (await revert_reembedding(filled, lineage)).embedded == 0
    assert await nearness(filled, lineage) == by(TWO, [*TEXTS, "pour the tea"])


async def test_after_the_way_back_the_other_model_can_be_discarded(filled, lineage, owner):
    await reembed.reembed(filled, TWO, lineage)
    await remember.store_rule(filled, NewRule("pour the tea"), lineage)
    await revert_reembedding(filled, lineage)
    assert await discard_previous(filled, lineage) == 1
    assert await aside(owner) == 0
    assert await nearness(filled, lineage) == by(ONE, [*TEXTS, "pour the tea"])


@pytest.mark.contract("R31.2")
async def test_a_move_under_way_can_be_called_off(filled, lineage, owner):
    await start_reembedding(filled, TWO, lineage)
    report = await revert_reembedding(filled, lineage)
    assert (report.current, await aside(owner)) == (False, 0)
    assert await states(filled, lineage) == {"1": "current", "2": "aside"}
    assert await nearness(filled, lineage) == by(ONE)
    with pytest.raises(NotFound, match="no re-embedding is in progress"):
        await finish_reembedding(filled, lineage)


async def test_whoever_still_builds_then_is_told(filled, lineage, owner):
    async def call_off(texts):
        await revert_reembedding(filled, lineage)

    unaware = CountingToy(call_off)
    with pytest.raises(Conflict, match="toy 2 was building when this began and is aside now"):
        await start_reembedding(with_models(filled, ONE, unaware), unaware, lineage)
    assert await aside(owner) == 0


async def test_there_is_no_way_back_to_what_was_discarded(filled, lineage):
    await reembed.reembed(filled, TWO, lineage)
    await discard_previous(filled, lineage)
    with pytest.raises(NotFound, match="no embedding model to go back to"):
        await revert_reembedding(filled, lineage)
    # But there is a way: as to any other model.
    assert (await reembed.reembed(filled, ONE, lineage)).embedded == 6
    assert await nearness(filled, lineage) == by(ONE)


async def test_discarding_before_anything_was_stored_is_nothing(memory, lineage):
    assert await discard_previous(memory, lineage) == 0


# Refusals


async def test_one_move_at_a_time(filled, lineage):
    class ThirdToy(OtherToy):
        version = "3"

    third = ThirdToy()
    await start_reembedding(filled, TWO, lineage)
    with pytest.raises(
        Conflict, match="re-embedding with toy 2 is in progress; finish or revert it"
    ):
        await start_reembedding(with_models(filled, ONE, TWO, third), third, lineage)
    assert await states(filled, lineage) == {"1": "current", "2": "building"}


async def test_vectors_of_another_length_cannot_be_held(filled, lineage):
    class LongToy(OtherToy):
        dimensions = 768

    with pytest.raises(InvalidInput, match="768 dimensions; valid is 384"):
        await start_reembedding(filled, LongToy(), lineage)


async def test_a_place_that_means_something_else_elsewhere_is_refused(filled, lineage):
    with pytest.raises(
        InvalidInput, match="directory: found 'models/toy'; valid is an absolute path"
    ):
        await start_reembedding(filled, TWO, lineage, directory="models/toy")


async def test_a_model_that_searches_could_not_load_is_refused(filled, lineage):
    with pytest.raises(Unavailable, match="toy 2 cannot be loaded here from /models/toy"):
        await start_reembedding(with_models(filled, ONE), TWO, lineage, directory="/models/toy")
    assert await states(filled, lineage) == {"1": "current"}


async def test_a_model_is_remembered_with_the_place_it_is_in(filled, lineage):
    asked = []

    def look_up(version):
        asked.append(version.directory)
        return TWO

    moved = replace(filled, embedders=look_up)
    await start_reembedding(moved, TWO, lineage, directory="/models/old")
    await start_reembedding(moved, TWO, lineage, directory="/models/new")
    await finish_reembedding(moved, lineage)
    await nearness(moved, lineage)
    assert (asked[0], asked[-1]) == ("/models/old", "/models/new")


# Tenants, large ones, reports, older databases


@pytest.mark.contract("R31.2", "R29.2")
async def test_each_tenant_moves_on_its_own(filled, lineage, stranger, owner):
    await remember.store_rule(filled, NewRule("their tea"), stranger)
    await reembed.reembed(filled, TWO, lineage)
    assert await nearness(filled, stranger) == by(ONE, ["their tea"])
    assert await nearness(filled, lineage) == by(TWO)
    moved = await reembed_all(filled, TWO, "mover")
    assert moved.failed == {}
    assert {tenant: report.embedded for tenant, report in moved.done.items()} == {
        "acme": 0,
        "rival": 1,
    }
    assert await nearness(filled, stranger) == by(TWO, ["their tea"])


async def test_one_that_cannot_be_moved_keeps_no_other_from_it(filled, lineage, stranger):
    class ThirdToy(OtherToy):
        version = "3"

    third = ThirdToy()
    await remember.store_rule(filled, NewRule("their tea"), stranger)
    both = with_models(filled, ONE, TWO, third)
    await start_reembedding(both, third, lineage)
    moved = await reembed_all(both, TWO, "mover")
    assert list(moved.done) == ["rival"]
    assert "re-embedding with toy 3 is in progress" in moved.failed["acme"]


@pytest.mark.contract("R31.2", "L16")
@pytest.mark.parametrize("read_whole", [candidates.READ_WHOLE, -1])
async def test_the_index_knows_vectors_wherever_they_lie(
    filled, lineage, owner, monkeypatch, read_whole
):
    """In their rows, aside, home again: the same answers by index and by reading everything."""
    monkeypatch.setattr(candidates, "READ_WHOLE", read_whole)
    assert await nearness(filled, lineage) == by(ONE)
    await reembed.reembed(filled, TWO, lineage)
    assert await nearness(filled, lineage) == by(TWO)
    assert await differences(owner) == []
    await discard_previous(filled, lineage)
    assert await nearness(filled, lineage) == by(TWO)
    assert await differences(owner) == []
    assert await owner.fetchval("select count(distinct version_id) from index_vectors") == 1


async def test_a_status_says_how_far_each_model_is(filled, lineage):
    await start_reembedding(filled, TWO, lineage)
    await remember.store_rule(filled, NewRule("pour the tea"), lineage)
    found = {
        one.version.version: (str(one.version.state), one.counts.embedded, one.counts.memories)
        for one in await reembedding_status(filled, lineage)
    }
    assert found == {"1": ("current", 7, 7), "2": ("building", 6, 7)}
