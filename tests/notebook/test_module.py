"""The notebook as a module: its file, its jobs, its health, and the thread it works on."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from butlers.auth.rights import Caller
from butlers.errors import InvalidInput, NotFound, Unavailable
from butlers.host import registry
from butlers.module import ButlerEnvironment
from butlers.notebook import open_notebook, owner_id
from butlers.notebook.manager import FILE
from butlers.notebook.module import NotebookModule
from butlers.notebook.settings import NotebookModuleConfig
from memory.scripted_model import ScriptedModel

ANN, BOB = Caller("acme", "token:1", "ann"), Caller("acme", "token:2", "bob")
RIVAL = Caller("rival", "token:3", "ann")


@asynccontextmanager
async def started(directory: Path, **known: Any) -> AsyncIterator[NotebookModule]:
    config = NotebookModuleConfig(enabled=True, **known.pop("settings", {}))
    module = NotebookModule(
        ButlerEnvironment("general", "acme", directory=directory, **known), config
    )
    try:
        await module.on_startup(config, None)  # type: ignore[arg-type]
        yield module
    finally:
        await module.on_shutdown()


@pytest.fixture
async def module(tmp_path: Path, clock: Any) -> AsyncIterator[NotebookModule]:
    async with started(tmp_path, clock=clock) as module:
        yield module


async def call(module: NotebookModule, tool: str, /, caller: Caller = ANN, **arguments: Any) -> Any:
    (operation,) = [found for found in module.operations if found.tool == tool]
    return await operation.run(module.operation_context(caller), operation.parse(arguments))


def test_the_house_knows_the_notebook_which_needs_nobody_and_no_migrations() -> None:
    assert registry.KNOWN["notebook"] is NotebookModule
    assert NotebookModule.dependencies == ()
    assert NotebookModule.migrations is None


async def test_the_file_is_private_and_let_go_of(tmp_path: Path) -> None:
    async with started(tmp_path) as module:
        await call(module, "note_save", key="k", content="cluster")
        assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    with pytest.raises(Unavailable, match="notebook of butler general is not started"):
        await call(module, "note_recall", key="k")
    # The last to close a database takes its log files away.
    assert [file.name for file in tmp_path.iterdir()] == [FILE]
    async with started(tmp_path) as again:
        assert (await call(again, "note_recall", key="k")).content == "cluster"


async def test_without_a_directory_it_does_not_start() -> None:
    module = NotebookModule(ButlerEnvironment("general"))
    assert len(list(module.operations)) == 7
    with pytest.raises(Unavailable, match="no directory"):
        await module.on_startup(None, None)  # type: ignore[arg-type]
    await module.on_shutdown()


async def test_a_start_that_is_cancelled_leaves_nothing_open(tmp_path: Path) -> None:
    module = NotebookModule(ButlerEnvironment("general", directory=tmp_path))
    start = asyncio.create_task(module.on_startup(None, None))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    start.cancel()
    await module.on_shutdown()
    with pytest.raises(Unavailable):
        _ = module.manager
    assert {file.name for file in tmp_path.iterdir()} <= {FILE}


@pytest.mark.contract("K-I1", "L24")
async def test_agent_and_tenant_together_own_a_note(module: NotebookModule) -> None:
    for caller, content in ((ANN, "ann's"), (BOB, "bob's"), (RIVAL, "the rival's")):
        await call(module, "note_save", caller, key="k", content=f"cluster of {content}")
    await call(module, "note_save", BOB, key="only-bob", content="cluster")
    for caller, content in ((ANN, "ann's"), (BOB, "bob's"), (RIVAL, "the rival's")):
        assert (await call(module, "note_recall", caller, key="k")).content.endswith(content)
    assert await call(module, "note_recall", ANN, key="only-bob") is None
    found = await call(module, "note_search", ANN, query="cluster")
    assert [one.memory.content for one in found.memories] == ["cluster of ann's"]
    assert [one.key for one in await call(module, "note_list", RIVAL)] == ["k"]
    with pytest.raises(NotFound, match="key: found 'only-bob'"):
        await call(module, "note_related", RIVAL, key="only-bob")


async def test_a_token_for_no_agent_is_the_butler(module: NotebookModule) -> None:
    saved = await call(module, "note_save", Caller("acme", "token:9"), key="k", content="x")
    assert saved.agent_id == "general"
    replaced = Caller("acme", "token:10")
    assert (await call(module, "note_recall", replaced, key="k")).content == "x"
    assert module.manager.recall(owner_id("acme", "general"), "k") is not None


async def test_no_argument_makes_a_caller_somebody_else(module: NotebookModule) -> None:
    with pytest.raises(InvalidInput, match="agent: found 'bob'; valid is your own name, 'ann'"):
        await call(module, "note_save", ANN, key="k", content="x", agent="bob")
    assert (await call(module, "note_save", ANN, key="k", content="x", agent="ann")).key == "k"


async def test_limits_are_what_the_tools_do(module: NotebookModule) -> None:
    for number in range(12):
        await call(module, "note_save", key=f"k{number}", content="cluster")
    assert len(await call(module, "note_list")) == 10
    assert len((await call(module, "note_search", query="cluster")).memories) == 10
    assert len(await call(module, "note_list", limit=11)) == 11
    with pytest.raises(InvalidInput, match="key has 201 characters; the limit is 200"):
        await call(module, "note_save", key="k" * 201, content="x")
    with pytest.raises(InvalidInput, match="content has 100001 characters"):
        await call(module, "note_save", key="k", content="x" * 100_001)


async def test_deep_search_asks_the_butlers_language_model(tmp_path: Path) -> None:
    model = ScriptedModel('{"ranking": [{"note": 2, "score": 0.75}]}')
    async with started(tmp_path, language_model=model) as module:
        for number in range(3):
            await call(module, "note_save", key=f"k{number}", content=f"cluster {number}")
        fast = await call(module, "note_search", query="cluster")
        assert model.prompts == []
        deep = await call(module, "note_search", query="cluster", mode="deep")
    assert len(model.prompts) == 1
    assert [one.memory.key for one in deep.memories] == [fast.memories[1].memory.key]
    assert (deep.memories[0].score, deep.memories[0].source, deep.mode) == (0.75, "llm", "deep")


@pytest.mark.contract("K-I15", "K-S4")
async def test_without_a_language_model_deep_is_fast(module: NotebookModule) -> None:
    await call(module, "note_save", key="k", content="cluster")
    fast = await call(module, "note_search", query="cluster")
    deep = await call(module, "note_search", query="cluster", mode="deep")
    assert deep.memories == fast.memories != []


@pytest.mark.contract("K-S5", "K-I13")
async def test_the_nightly_job_summarizes_everybodys_old_notes(
    module: NotebookModule, clock: Any
) -> None:
    (job,) = module.jobs()
    assert (job.name, job.cron) == ("summarize", "30 4 * * *")
    for caller in (ANN, BOB, RIVAL):
        for key in ("project:alpha", "project:beta"):
            await call(module, "note_save", caller, key=key, content=f"{key} of {caller.agent}")
    clock.advance(days=29)
    await call(module, "note_save", BOB, key="project:beta", content="fresh")
    assert await job.run() == {"agents": 3, "archived": 0, "errors": []}
    clock.advance(days=2)
    assert await job.run() == {"agents": 3, "archived": 4, "errors": []}
    assert [note.key for note in await call(module, "note_list", ANN)] == [
        f"summary:project:{clock.now:%Y-%m-%d}"
    ]
    assert len(await call(module, "note_list", BOB)) == 2
    assert await job.run() == {"agents": 3, "archived": 0, "errors": []}


async def test_a_job_that_fails_for_one_agent_goes_on_with_the_others(
    module: NotebookModule, clock: Any
) -> None:
    for caller in (ANN, BOB):
        for key in ("project:alpha", "project:beta"):
            await call(module, "note_save", caller, key=key, content=key)
    module.manager.db.sqlite.connection.execute(
        "create trigger spoilt before update of archived on agent_memories "
        "when new.archived = 1 and new.agent_id = 'acme/ann' "
        "begin select raise(abort, 'spoilt'); end"
    )
    clock.advance(days=40)
    report = await module.summarize()
    assert (report["agents"], report["archived"]) == (1, 2)
    assert [error.split(":")[0] for error in report["errors"]] == ["acme/ann"]


async def test_health_counts_notes_and_tells_of_a_file_that_is_lost(
    module: NotebookModule,
) -> None:
    await call(module, "note_save", ANN, key="k", content="x")
    await call(module, "note_save", BOB, key="k", content="x")
    health = await module.health()
    assert (health.ok, health.details) == (True, {"agents": 2, "notes": 2})
    module.manager.db.close()
    with pytest.raises(Unavailable, match="SQLite"):
        await module.health()


async def test_the_event_loop_never_waits_for_another_writer(
    module: NotebookModule, tmp_path: Path
) -> None:
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("begin immediate")
    saving = asyncio.create_task(call(module, "note_save", key="k", content="x"))
    ticks = 0
    while ticks < 20:
        await asyncio.sleep(0.005)
        ticks += 1
    assert not saving.done()
    other.execute("rollback")
    other.close()
    assert (await saving).key == "k"


async def test_what_another_process_wrote_is_recalled_at_once(
    module: NotebookModule, tmp_path: Path
) -> None:
    await call(module, "note_save", key="k", content="old")
    assert (await call(module, "note_recall", key="k")).content == "old"
    other = open_notebook(tmp_path / FILE)
    other.sqlite.connection.execute("update agent_memories set content = 'new'")
    other.close()
    assert (await call(module, "note_recall", key="k")).content == "new"
