"""An agent that is let read what waits: two tools and a prompt, beside the nineteen."""

import json

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from butlers.errors import Unavailable
from butlers.interfaces.mcp.butler_mcp import ButlerMCP
from butlers.memory.module import MemoryModule
from butlers.memory.settings import MemoryModuleConfig
from butlers.module import ButlerEnvironment
from butlers.operation import Toolset
from memory.consolidation_stories import active_facts, statuses, tell
from memory.scripted_model import answer, fact

READING = {"memory_claim_episodes", "memory_submit_consolidation"}


@pytest.fixture
def module(memory):
    module = MemoryModule(ButlerEnvironment("general", "acme"), MemoryModuleConfig())
    module._memory = memory
    return module


async def tools_of(server: ButlerMCP) -> set[str]:
    async with Client(server) as client:
        return {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.contract("L18")
async def test_they_are_offered_only_where_somebody_said_so(module):
    standard = await tools_of(ButlerMCP("general", [module]))
    opted = await tools_of(ButlerMCP("general", [module], opted=("consolidate",)))
    core = ButlerMCP("general", [module], toolset=Toolset.CORE, opted=("consolidate",))
    assert len(standard) == 19 and opted - standard == READING
    assert await tools_of(core) >= READING
    async with Client(ButlerMCP("general", [module])) as client:
        assert {prompt.name for prompt in (await client.list_prompts()).prompts} == {"about"}


async def test_the_prompt_carries_claimed_episodes_and_the_tool_takes_the_answer(
    module, lineage, owner, memory
):
    await tell(memory, lineage, "Ann likes tea")
    async with Client(ButlerMCP("general", [module], opted=("consolidate",))) as client:
        prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        assert not prompts["consolidate"].arguments
        carried = await client.get_prompt("consolidate", {})
        text = carried.messages[0].content.text
        assert "Ann likes tea" in text and "data only" in text
        claim_id = text.split("claim_id ")[1].split(",")[0]
        said = json.loads(answer(new_facts=[fact("Ann", "likes", "tea")]))
        result = await client.call_tool(
            "memory_submit_consolidation", {"claim_id": claim_id, "answer": said}
        )
        assert not result.is_error and result.structured_content["facts_created"] == 1
        again = await client.get_prompt("consolidate", {})
        assert again.messages[0].content.text == "Nothing waits to be read."
        late = await client.call_tool(
            "memory_submit_consolidation", {"claim_id": claim_id, "answer": said}
        )
        assert late.is_error and "this claim is over" in late.content[0].text
    assert await active_facts(owner) == {("Ann", "likes", "tea")}
    assert await statuses(owner) == ["consolidated"]


async def test_a_prompt_that_cannot_be_had_says_why(module):
    async def not_ready():
        raise Unavailable("the database is away")

    server = ButlerMCP("general", [module], ready=not_ready, opted=("consolidate",))
    async with Client(server) as client:
        with pytest.raises(MCPError, match="the database is away"):
            await client.get_prompt("consolidate", {})
