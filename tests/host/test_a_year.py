"""A year of a life over MCP, on a walking clock: what holds now, held then, and was believed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from butlers.host.butler import Butler
from butlers.host.database import DatabaseServer
from butlers.interfaces.http_server import listen
from butlers.interfaces.mcp.butler_mcp import ButlerMCP
from butlers.operation import Toolset
from conftest import WalkingClock
from host.a_life import LIFE, QUESTIONS, Asked, Corrected, Forgotten, Renamed, Told
from host.test_thirty_days import served
from interfaces.daemons import temporary_home
from interfaces.mcp.clients import call
from jobs.machines import Machine


@asynccontextmanager
async def mcp_client(butler: Butler) -> AsyncIterator[Client]:
    """The SDK's client on streamable HTTP, of a butler with every tool it can offer."""
    server = ButlerMCP(butler.name, butler.modules, toolset=Toolset.ALL)
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    serving = uvicorn.Server(
        uvicorn.Config(server.streamable_http_app(), log_level="error", lifespan="on")
    )
    task = asyncio.create_task(serving.serve(sockets=[listening]))
    while not serving.started:
        await asyncio.sleep(0.01)
    url = f"http://127.0.0.1:{port}/mcp"
    try:
        async with (
            httpx2.AsyncClient(trust_env=False, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            yield client
    finally:
        serving.should_exit = True
        await task


class Year:
    """What is known of the year so far, and how to go on with it."""

    def __init__(self, butler: Butler, machine: Machine, client: Client) -> None:
        self.butler, self.machine, self.client = butler, machine, client
        self.facts: dict[str, str] = {}

    async def until(self, day: str) -> None:
        """Days pass with their jobs, until noon of a day."""
        noon = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
        schedule = self.butler.schedule()
        while self.machine.clock.now < noon:
            left = (noon - self.machine.clock.now).total_seconds()
            self.machine.passes(seconds=min(left, 86_400.0))
            await schedule.look()
            await schedule.settled()

    async def live(self, event: Told | Corrected | Forgotten | Renamed) -> None:
        match event:
            case Told():
                await self._hear(event)
            case Corrected():
                answer = await call(
                    self.client,
                    "memory_correct",
                    fact_id=self.facts[event.predicate],
                    content=event.content,
                )
                self.facts[event.predicate] = answer["id"]
            case Forgotten():
                fact = self.facts.pop(event.predicate)
                await call(self.client, "memory_forget", memory_type="fact", memory_id=fact)
            case Renamed():
                await self._rename(event)

    async def _hear(self, told: Told) -> None:
        episode = await call(
            self.client, "memory_store_episode", content=told.says, butler="general"
        )
        given = dict(told.given)
        if told.rests_on is not None:
            given["depends_on"] = [self.facts[told.rests_on]]
        answer = await call(
            self.client,
            "memory_store_fact",
            subject=told.subject,
            predicate=told.predicate,
            content=told.content,
            permanence="stable",
            source_episode_id=episode["id"],
            **given,
        )
        self.facts[told.predicate] = answer["id"]

    async def _rename(self, event: Renamed) -> None:
        [entity] = (await call(self.client, "entity_resolve", name=event.name))["result"]
        await call(
            self.client,
            "entity_update",
            entity_id=entity["entity_id"],
            canonical_name=event.new,
            aliases=[event.name],
        )

    async def wrong(self, asked: Asked) -> list[str]:
        """What is wrong with the answers to a question; nothing, if they are right."""
        when = {
            name: _instant(at) for name in ("as_of", "known_at") if (at := getattr(asked, name))
        }
        recalled = await call(self.client, "memory_recall", topic=asked.question, limit=10, **when)
        context = await call(
            self.client, "memory_context", trigger_prompt=asked.question, butler="general", **when
        )
        return [*_misled(asked, recalled["result"]), *_mistold(asked, context)]


def _instant(day: str) -> str:
    return f"{day}T12:00:00+00:00"


def _misled(asked: Asked, recalled: list[dict[str, Any]]) -> list[str]:
    """Whether the answer is not among what holds, or something else is beside it."""
    current = [one for one in recalled if not one.get("outdated_by")]
    wrong = [
        f"recall says {word}: {one['content']}"
        for one in current
        for word in asked.never
        if word in one["content"]
    ]
    if recalled[: len(current)] != current:
        wrong.append("recall: what is outdated stands before what is not")
    if asked.says is not None:
        right = [one for one in current if asked.says in one["content"]]
        kinds = {one["predicate"] for one in right if one["memory_type"] == "fact"}
        wrong += [
            f"recall says {one['content']} too"
            for one in current
            if one.get("predicate") in kinds and asked.says not in one["content"]
        ]
        if not right:
            wrong.append(f"recall: {[one['content'] for one in current]} has no {asked.says}")
    return wrong


def _mistold(asked: Asked, context: dict[str, Any]) -> list[str]:
    text = context["result"]
    wrong = [f"context says {word}" for word in asked.never if word in text]
    if asked.says is not None and asked.says not in text:
        wrong.append(f"context does not say {asked.says}:\n{text}")
    return wrong


@pytest.fixture
def machine(clock: WalkingClock) -> Machine:
    clock.now = datetime(2025, 1, 4, 12, tzinfo=UTC)
    return Machine(clock)


@pytest.mark.slow
@pytest.mark.contract("L31", "L34", "L35", "L38", "L40")
async def test_a_year_of_changes_is_told_as_it_was_now_then_and_as_it_was_believed(
    machine: Machine,
) -> None:
    days = sorted({one.on for one in (*LIFE, *QUESTIONS)})
    wrong: dict[str, list[str]] = {}
    with temporary_home() as home:
        home.create()
        home.create_butler("general")
        server = DatabaseServer(home)
        try:
            async with served(server, machine) as butler, mcp_client(butler) as client:
                year = Year(butler, machine, client)
                for day in days:
                    await year.until(day)
                    for event in (one for one in LIFE if one.on == day):
                        await year.live(event)
                    for asked in (one for one in QUESTIONS if one.on == day):
                        if mistakes := await year.wrong(asked):
                            wrong[str(asked)] = mistakes
        finally:
            await server.release()
    assert wrong == {}
