"""A butler over a real database: its modules start in order, stop in reverse, and may fail."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
from structlog.testing import capture_logs

from butlers.db.migrate import current_revisions
from butlers.errors import Conflict, Unavailable
from butlers.host.butler import Butler
from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from butlers.host.hosting import check_butler, started
from butlers.interfaces.mcp.butler_mcp import ButlerMCP
from butlers.memory.flows import remember
from butlers.memory.model import Lineage, NewFact
from butlers.memory.module import MemoryModule
from butlers.memory.settings import MemoryModuleConfig
from butlers.module import Module
from butlers.settings.sections import ButlerSettings
from host.toy_modules import diary, settings_for, toy
from interfaces.daemons import temporary_home


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with temporary_home() as home:
        home.create()
        yield home


@pytest.fixture(scope="module")
async def server(home: Home) -> AsyncIterator[DatabaseServer]:
    server = DatabaseServer(home)
    yield server
    await server.release()


@pytest.fixture(autouse=True)
def empty_diary() -> None:
    diary.clear()


def memory_settings(name: str, **memory: object) -> ButlerSettings:
    return ButlerSettings.model_validate({"butler": {"name": name}, "modules": {"memory": memory}})


def butler_of(server: DatabaseServer, *modules: type[Module]) -> Butler:
    known = {module.name: module for module in modules}
    return Butler(settings_for(*modules), server, known=known)


async def test_modules_start_in_order_and_stop_in_reverse(server: DatabaseServer) -> None:
    butler = butler_of(server, toy("a", "b"), toy("b"), toy("c", "a"))
    await butler.start()
    assert diary == ["start b", "start a", "start c"]
    assert butler.module("a").name == "a"
    await butler.stop()
    assert diary[3:] == ["stop c", "stop a", "stop b"]


async def test_a_module_that_fails_to_start_is_named_and_the_others_serve(
    server: DatabaseServer,
) -> None:
    failing = toy("b", "a", fails="start")
    butler = butler_of(server, toy("a"), failing, toy("c", "b"))
    await butler.start()
    assert diary == ["start a", "start b", "stop b", "stop c"]
    assert butler.module("a").name == "a"
    with pytest.raises(Unavailable, match="butler toys: module b failed to start: it is not my"):
        butler.module("b")
    assert butler.failures["c"] == "it needs module b, which failed to start"
    assert [name for name, found in (await butler.health()).items() if not found.ok] == ["b", "c"]
    failing.fails = ""
    await butler.start()
    assert butler.failures == {}
    assert butler.module("c").name == "c"
    await butler.stop()
    assert diary[4:] == ["start b", "start c", "stop c", "stop b", "stop a"]


async def test_a_butler_none_of_whose_modules_starts_fails_and_leaves_nothing_behind(
    server: DatabaseServer,
) -> None:
    butler = butler_of(server, toy("b", fails="start"))
    with pytest.raises(Unavailable, match="butler toys: module b failed to start: it is not my"):
        await butler.start()
    assert diary == ["start b", "stop b"]
    assert not butler.is_open


async def test_a_module_that_fails_to_stop_does_not_keep_the_others(
    server: DatabaseServer,
) -> None:
    butler = butler_of(server, toy("a"), toy("b", "a", fails="stop"))
    await butler.start()
    await butler.stop()
    assert diary[2:] == ["stop b", "stop a"]
    await butler.stop()
    assert len(diary) == 4


async def test_a_tool_that_two_modules_offer_stops_the_start(server: DatabaseServer) -> None:
    butler = butler_of(server, toy("a", tool_names=("x",)), toy("b", tool_names=("x",)))
    with pytest.raises(Conflict, match="both offer a tool x"):
        await butler.start()
    assert diary[2:] == ["stop b", "stop a"]


async def test_health_tells_which_module_is_unwell(server: DatabaseServer) -> None:
    butler = butler_of(server, toy("a"), toy("b", fails="health"))
    await butler.start()
    health = await butler.health()
    assert {name: found.ok for name, found in health.items()} == {"a": True, "b": False}
    await butler.stop()


async def test_a_module_that_is_off_is_said_to_be_off(server: DatabaseServer) -> None:
    butler = butler_of(server, toy("a"))
    await butler.start()
    with pytest.raises(Unavailable, match=r"set modules\.memory\.enabled = true"):
        butler.module("memory")
    await butler.stop()


@pytest.mark.contract("R28.1", "R28.2", "R28.3")
async def test_the_memory_takes_hold_lets_go_and_loads_its_model_only_when_asked(
    server: DatabaseServer,
) -> None:
    settings = memory_settings("lifecycle")
    butler = Butler(settings, server)
    await butler.start()
    module = butler.module("memory")
    assert isinstance(module, MemoryModule)
    assert module._database is not None
    assert module.config is settings.module("memory")
    assert module._embedding_engine is None
    engine = module._get_embedding_engine()
    assert module._get_embedding_engine() is engine
    assert module.memory.embedder() is engine
    await butler.stop()
    assert module._database is None
    assert module._embedding_engine is None
    with pytest.raises(Unavailable, match="lifecycle is not started"):
        _ = module.memory


@pytest.mark.contract("R28.1")
async def test_settings_of_another_kind_leave_the_defaults(server: DatabaseServer) -> None:
    butler = Butler(memory_settings("defaults"), server)
    await butler.start()
    module = MemoryModule(butler.modules[0].environment)
    started = butler.module("memory")
    assert isinstance(started, MemoryModule)
    await module.on_startup(None, started.memory.database)
    assert module.config == MemoryModuleConfig()
    await butler.stop()


@pytest.mark.contract("P10")
async def test_two_butlers_share_one_model_and_another_model_is_another(
    server: DatabaseServer, tmp_path: Path
) -> None:
    settings = [
        memory_settings("one"),
        memory_settings("two"),
        memory_settings("three", embedding_model_directory=str(tmp_path)),
        memory_settings("four", embedding_model_directory=f"{tmp_path}/../{tmp_path.name}"),
    ]
    butlers = [Butler(each, server) for each in settings]
    engines = []
    for butler in butlers:
        await butler.start()
        module = butler.module("memory")
        assert isinstance(module, MemoryModule)
        engines.append(module.memory.embedder())
    for butler in butlers:
        await butler.stop()
    assert engines[0] is engines[1]
    assert engines[2] is engines[3]
    assert engines[0] is not engines[2]


@pytest.mark.contract("P8")
async def test_each_butler_has_a_migrated_database_of_its_own(
    home: Home, server: DatabaseServer
) -> None:
    for name in ("north", "south"):
        butler = Butler(memory_settings(name), server)
        await butler.start()
        await butler.stop()
    stands = [await current_revisions(server.running_url(name)) for name in ("north", "south")]
    assert stands[0] == stands[1] != ()
    connection = await asyncpg.connect(server.running_url("north"))
    try:
        assert await connection.fetchval("select current_database()") == "butler_north"
    finally:
        await connection.close()


@pytest.mark.contract("P8")
async def test_a_butler_without_memory_gets_no_memory_tables(server: DatabaseServer) -> None:
    butler = butler_of(server, toy("a"))
    await butler.start()
    await butler.stop()
    connection = await asyncpg.connect(server.running_url("toys"))
    try:
        assert await connection.fetchval("select to_regclass('facts')") is None
    finally:
        await connection.close()


@pytest.mark.contract("L1")
async def test_without_authentication_the_caller_is_the_configured_tenant(
    server: DatabaseServer,
) -> None:
    settings = ButlerSettings.model_validate({"butler": {"name": "mine", "tenant": "acme"}})
    butler = Butler(settings, server)
    await butler.start()
    try:
        unauthenticated = ButlerMCP("mine", butler.modules)
        about = {"canonical_name": "Ann", "entity_type": "person", "tenant_id": "acme"}
        assert not (await unauthenticated.call_tool("entity_create", about)).is_error
        refused = await unauthenticated.call_tool("entity_create", about | {"tenant_id": "rival"})
        assert "valid is your own tenant, 'acme'" in refused.content[0].text
    finally:
        await butler.stop()


@pytest.mark.contract("N4.1", "N6.3")
async def test_each_butler_has_its_own_tools_workers_engine_and_tables(
    server: DatabaseServer,
) -> None:
    """What one butler stores, with its own worker run over it, the other never sees."""
    butlers = [Butler(memory_settings(name), server) for name in ("one", "other")]
    counts = []
    for butler in butlers:
        await butler.start()
    try:
        for butler in butlers:
            memory = butler.module("memory")
            tools = ButlerMCP(butler.name, [memory])
            jobs = {job.name: job for job in memory.jobs()}
            assert len(tools.tools) == 19
            assert set(jobs) == {"consolidate", "decay_sweep", "episode_cleanup", "check_store"}
            if butler.name == "one":
                fact = {"subject": "Ann", "predicate": "likes", "content": "tea"}
                assert not (await tools.call_tool("memory_store_fact", fact)).is_error
            await jobs["decay_sweep"].run()
            url = server.running_url(butler.name)
            assert url.split("?")[0].endswith(f"/butler_{butler.name}")
            connection = await asyncpg.connect(url)
            counts.append(await connection.fetchval("select count(*) from facts"))
            await connection.close()
            engine = memory.memory.embedder()
            assert (engine.model, engine.dimensions) == ("all-MiniLM-L6-v2", 384)
        assert counts == [1, 0]
    finally:
        for butler in butlers:
            await butler.stop()


async def test_what_an_upgrade_left_wrong_is_logged_and_the_butler_starts(
    server: DatabaseServer,
) -> None:
    butler = Butler(memory_settings("upgraded"), server)
    assert await started(butler) is None
    new = NewFact("Ann", "likes", "tea")
    await remember.store_fact(butler.memory, new, Lineage("default", "me"))
    assert (await check_butler(butler)).lines == []
    await butler.stop()
    connection = await asyncpg.connect(server.running_url("upgraded"))
    await connection.execute("update facts set validity = 'expired'")
    await connection.close()
    for is_upgraded in (False, True):
        server.upgraded |= {"upgraded"} if is_upgraded else set()
        with capture_logs() as told:
            assert await started(butler) is None
        await butler.stop()
        found = [line["found"] for line in told if line["event"] == "after the upgrade"]
        assert any("its events make it active" in line for line in found) == is_upgraded
    assert server.upgraded == set()
