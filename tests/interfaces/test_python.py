"""The Python API: the flows under the names a program uses."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import uuid

import pytest
import structlog

import butlers
from butlers import ButlerMemory, Conflict, InvalidInput, NotFound, open_memory
from butlers.db.embedded.liveness import read_pid_file
from butlers.errors import Forbidden
from butlers.memory.model import Lineage
from interfaces.daemons import ENVIRONMENT, operating, temporary_home, up

HEAVY = {"asyncpg", "numpy", "onnxruntime", "pydantic", "sqlalchemy", "structlog", "typer"}


@pytest.fixture
def ours(memory, lineage):
    return ButlerMemory(memory, lineage)


@pytest.fixture
def theirs(memory):
    return ButlerMemory(memory, Lineage("rival", "spy", "request-2"))


async def kinds(memory, memory_id):
    return [event["event_type"] for event in await memory.history(memory_id)]


def loaded_after(code):
    told = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in told.stdout.split()}


def test_importing_the_package_is_light_and_the_api_needs_no_server():
    assert not loaded_after("import butlers; butlers.__version__; butlers.NotFound") & HEAVY
    assert not loaded_after("from butlers import open_memory") & {"mcp", "fastapi", "uvicorn"}


def test_every_name_offered_is_there_and_no_other():
    for name in butlers.__all__:
        assert getattr(butlers, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'open_mind'"):
        butlers.open_mind  # noqa: B018


def test_every_method_is_documented_and_typed():
    methods = dict(inspect.getmembers(ButlerMemory, inspect.isfunction))
    public = [method for name, method in methods.items() if not name.startswith("_")]
    assert len(public) >= 24
    for method in public:
        assert method.__doc__, method
        assert "return" in method.__annotations__, method


async def test_what_is_stored_is_found_and_told(ours):
    episode = await ours.store_episode("Ann called about dinner", importance=3)
    fact = await ours.store_fact(
        "Ann", "allergy", "nuts", tags=["health"], source_episode_id=str(episode.id)
    )
    better = await ours.store_fact("Ann", "allergy", "peanuts", permanence="permanent")
    assert better.superseded_id == fact.id
    assert [one["content"] for one in await ours.search("peanuts", types=["fact"])] == ["peanuts"]
    assert [one["rank"] > 0 for one in await ours.search("dinner", mode="keyword")] == [True]
    recalled = await ours.recall("Ann allergy")
    assert recalled[0].row["content"] == "peanuts"
    assert recalled[0].parts.confidence == 1
    assert "[Ann] [allergy]: peanuts" in (await ours.context("Ann", token_budget=100)).text
    read = await ours.get(fact.id)
    assert read is not None
    assert (read["memory_type"], read["validity"]) == ("fact", "superseded")
    told = await ours.explain(fact.id)
    assert told is not None
    assert [one["content"] for one in told["source_episodes"]] == ["Ann called about dinner"]
    assert [one["content"] for one in told["replaced_by"]] == ["peanuts"]
    assert (await ours.stats())["facts"]["superseded"] == 1


async def test_what_is_stored_says_who_and_in_which_request(ours, memory):
    rule = await ours.for_request("r-17").store_rule("Be brief", scope="general")
    (event,) = await ours.history(rule.id)
    assert (event["actor"], event["request_id"]) == (ours.lineage.actor, "r-17")
    assert event["payload"]["source_butler"] == memory.butler
    with pytest.raises(InvalidInput, match="request_id"):
        ours.for_request(" ")


async def test_judging_and_forgetting(ours):
    rule = await ours.store_rule("Reply to all")
    assert (await ours.mark_helpful(rule.id, {"task": "mail"}))["success_count"] == 1
    assert (await ours.mark_harmful(rule.id, "it leaked"))["harmful_count"] == 1
    assert await ours.confirm(rule.id)
    assert await ours.forget(rule.id)
    assert not await ours.forget(rule.id)
    assert await ours.restore(rule.id)
    assert not await ours.restore(rule.id)
    assert await kinds(ours, rule.id) == [
        "rule_created",
        "rule_marked_helpful",
        "rule_marked_harmful",
        "rule_confirmed",
        "rule_forgotten",
        "rule_restored",
    ]


async def test_links_lead_from_memory_to_memory_of_any_kind(ours):
    fact = await ours.store_fact("Ann", "likes", "tea")
    rule = await ours.store_rule("Offer tea")
    assert await ours.create_link(rule.id, "derived_from", fact.id)
    assert not await ours.create_link(rule.id, "derived_from", fact.id)
    (link,) = await ours.get_links(fact.id, "incoming")
    assert (link["source_type"], link["source_id"]) == ("rule", str(rule.id))
    with pytest.raises(NotFound, match="there is no memory"):
        await ours.create_link(rule.id, "supports", uuid.uuid4())


async def test_many_memories_are_stored_at_once(ours, theirs):
    tea = {"memory_type": "fact", "subject": "Ann", "predicate": "drinks", "content": "tea"}
    batch = await ours.store_batch([tea, {**tea, "content": ""}, {**tea, "content": "coffee"}])
    assert (batch.stored, batch.failed) == (2, 1)
    first, refused, last = batch.results
    assert (refused.place, refused.stored) == (1, None)
    assert refused.error.startswith("content: found an empty text")
    assert last.stored.superseded_id == first.stored.id
    assert (await ours.look_up("Ann", "drinks"))["id"] == str(last.stored.id)
    assert await theirs.look_up("Ann", "drinks") is None


async def test_a_fact_is_looked_up_by_its_key(ours, theirs):
    await ours.store_fact("Ann", "drinks", "coffee")
    fact = await ours.store_fact("Ann", "drinks", "tea")
    found = await ours.look_up(" Ann ", "drinks")
    assert found is not None
    assert (found["id"], found["content"], found["reference_count"]) == (str(fact.id), "tea", 0)
    entity = await ours.create_entity("Ann", "person", aliases=["Nan"])
    assert (await ours.look_up("nan", "drinks"))["id"] == str(fact.id), "it is the entity's now"
    about = await ours.store_fact("Ann", "drinks", "cocoa", entity_id=entity)
    under = await ours.look_up("whoever", "drinks", entity_id=str(entity)[:20])
    assert under is not None
    assert under["id"] == str(about.id)
    other = await ours.create_entity("Nancy", "person")
    assert await ours.look_up("Ann", "drinks", entity_id=other) is None
    assert await ours.look_up("Ann", "drinks", scope="kitchen") is None
    assert await theirs.look_up("Ann", "drinks") is None
    await ours.forget(about.id)
    assert await ours.look_up("Ann", "drinks") is None
    with pytest.raises(InvalidInput, match="subject: found an empty text"):
        await ours.look_up(" ", "drinks")


async def test_entities_are_created_resolved_changed_and_merged(ours):
    jonas = await ours.create_entity("Jonas Weber", "person", aliases=["Jo"])
    other = await ours.create_entity("J. Weber", "person")
    (found,) = await ours.resolve_entity("jo", entity_type="person")
    assert (found["entity_id"], found["name_match"]) == (str(jonas), "alias")
    changed = await ours.update_entity(str(jonas), metadata={"city": "Leipzig"})
    assert changed["metadata"] == {"city": "Leipzig"}
    await ours.store_fact("J. Weber", "diet", "vegetarian", entity_id=other)
    report = await ours.merge_entities(other, jonas)
    assert (report.facts_repointed, report.aliases_added) == (1, 1)
    merged = await ours.get_entity(other)
    assert merged is not None
    assert merged["metadata"]["merged_into"] == str(jonas)
    assert await kinds(ours, jonas) == ["entity_created", "entity_updated", "entity_merge"]


async def test_an_id_may_be_shortened_while_it_is_clear(ours, owner):
    first = await ours.store_fact("Ann", "likes", "tea")
    second = await ours.store_rule("Offer tea")
    # The ids of tests differ only at their end.
    with pytest.raises(Conflict, match=f"fact {first.id}.*rule {second.id}.*more of the id"):
        await ours.get(str(first.id)[:8])
    by_kind = await ours.get(str(first.id)[:8], "fact")
    assert by_kind is not None
    assert by_kind["id"] == str(first.id)
    await owner.execute(
        "update rules set id = $1 where id = $2", uuid.UUID(int=0xABCDEF << 104), second.id
    )
    found = await ours.find("ABCDEF-00")
    assert found is not None
    assert found.id == uuid.UUID(int=0xABCDEF << 104)


@pytest.mark.parametrize("given", ["", "abcde", "xyzxyz", "abc%_'", "0" * 33, "-" * 8])
async def test_what_is_no_id_is_refused(ours, given):
    with pytest.raises(InvalidInput, match="at least its first 6 digits"):
        await ours.get(given)


async def test_what_is_not_there_is_none_and_false(ours):
    entity, unknown = await ours.create_entity("Leipzig", "place"), uuid.uuid4()
    for memory_id in (entity, unknown):
        assert await ours.get(memory_id) is None
        assert await ours.explain(memory_id) is None
        assert await ours.confirm(memory_id) is False
        assert not await ours.forget(memory_id)
        assert await ours.restore(memory_id) is False
        with pytest.raises(NotFound, match=r"rule_id: rule .* does not exist"):
            await ours.mark_helpful(memory_id)
    assert await ours.history(unknown) == []
    with pytest.raises(InvalidInput, match="memory_type: found 'fcat'"):
        await ours.get(unknown, "fcat")


async def test_a_memory_that_was_removed_still_has_its_history(ours, owner):
    episode = await ours.store_episode("Ann called")
    await owner.execute("delete from episodes")
    assert await kinds(ours, str(episode.id)[:8]) == ["episode_created"]
    assert await ours.get(episode.id) is None


async def test_another_tenant_has_none_of_it(ours, theirs):
    fact = await ours.store_fact("Ann", "likes", "tea")
    rule = await theirs.store_rule("Offer tea")
    assert await theirs.find(str(fact.id)) is None
    assert await theirs.find(str(fact.id)[:6]) == await theirs.find(rule.id)
    assert await theirs.history(fact.id) == []
    assert not await theirs.forget(fact.id)
    assert await ours.find(fact.id) is not None


@pytest.mark.slow
async def test_a_home_is_opened_beside_the_daemon_that_serves_it(capfd):
    structlog.reset_defaults()  # a program that never heard of structlog; other tests have
    with temporary_home() as home:
        async with open_memory(home=str(home.root)) as memory:
            stored = await memory.store_fact("Ann", "likes", "tea")
            assert memory.lineage == Lineage("default", "python")
        assert home.butler_names() == ["general"]
        with up(home) as daemon:
            async with open_memory("general", home=home.root, actor="importer") as memory:
                assert await memory.confirm(stored.id)
                assert [event["actor"] for event in await memory.history(stored.id)] == [
                    "python",
                    "importer",
                ]
            async with open_memory(home=home.root, tenant="acme") as memory:
                assert await memory.get(stored.id) is None
            assert daemon.health() == 200
        with pytest.raises(NotFound, match="there is no butler 'ghost'"):
            async with open_memory("ghost", home=home.root):
                pass
        with pytest.raises(InvalidInput, match="tenant: found 'a b'"):
            async with open_memory(home=home.root, tenant="a b"):
                pass
        with pytest.raises(Forbidden, match="is not one for butler general"):
            async with open_memory(home=home.root, operator_token="btl_guessed"):
                pass
        given = operating(home)["BUTLERS_OPERATOR_TOKEN"]
        async with open_memory(home=home.root, operator_token=given) as memory:
            assert memory.lineage == Lineage("default", "python", may_decide=True)
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")


@pytest.mark.slow
async def test_a_program_gets_its_database_back_after_the_server_was_killed():
    with temporary_home() as home:
        async with open_memory(home=home.root) as memory:
            before = await memory.store_fact("Ann", "likes", "tea")
            server = read_pid_file(home.database_directory / "data")
            os.kill(server.pid, signal.SIGKILL)
            async with asyncio.timeout(30):
                while (now := read_pid_file(home.database_directory / "data")) is None or (
                    now.pid == server.pid
                ):
                    await asyncio.sleep(0.1)
            assert (await memory.get(before.id))["content"] == "tea"
            assert (await memory.store_fact("Ann", "likes", "rum")).superseded_id == before.id
