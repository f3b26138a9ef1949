"""Resources, prompts and completion: what a person picks from, and whose it is."""

import json
import uuid
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from butlers.auth.rights import Right
from butlers.auth.token_store import TokenStore
from interfaces.daemons import Daemon
from interfaces.mcp.clients import call, over_http

ENTITY = ResourceTemplateReference(uri="memory://entity/{name}")
SESSION = ResourceTemplateReference(uri="memory://session/{id}")
ABOUT = PromptReference(name="about")


async def read(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    return str(getattr(content, "text"))  # noqa: B009


async def completed(client: Client, ref: Any, name: str, begun: str) -> list[str]:
    return (await client.complete(ref, {"name": name, "value": begun})).completion.values


async def assert_listed(client: Client) -> None:
    (resource,) = (await client.list_resources()).resources
    templates = (await client.list_resource_templates()).resource_templates
    assert str(resource.uri) == "memory://context" and resource.description
    assert [one.uri_template for one in templates] == [ENTITY.uri, SESSION.uri]


async def test_they_hold_what_is_known_and_only_of_the_own_tenant(
    daemon: Daemon, tokens: TokenStore
) -> None:
    mark, session = uuid.uuid4().hex[:8], str(uuid.uuid4())
    name, happened = f"Quentin Ö. {mark}", f"Quentin {mark} moved the boat"
    _, token = tokens.create("general", f"owner{mark}", rights=Right.OPERATE)
    _, other = tokens.create("general", f"rival{mark}", rights=Right.OPERATE)
    async with over_http(daemon, token) as mine, over_http(daemon, other) as theirs:
        fact = {"subject": name, "predicate": "berth", "content": f"pier {mark}"}
        tenant = {"entity_type": "person", "tenant_id": f"owner{mark}"}
        await call(mine, "entity_create", canonical_name=name, **tenant)
        await call(mine, "memory_store_fact", **fact)
        episode = {"content": happened, "butler": "general", "session_id": session}
        await call(mine, "memory_store_episode", **episode)

        await assert_listed(mine)
        assert f"pier {mark}" in await read(mine, "memory://context")
        (known,) = json.loads(await read(mine, f"memory://entity/{name}"))
        assert (known["content"], known["source"]) == (f"pier {mark}", "via mcp")
        (said,) = json.loads(await read(mine, f"memory://session/{session}"))
        assert (said["content"], said["origin"]) == (happened, "agent")
        prompt = await mine.get_prompt("about", {"name": name})
        assert f"pier {mark}" in prompt.messages[0].content.text  # type: ignore[union-attr]

        assert await completed(mine, ENTITY, "name", "quent") == [name]
        assert await completed(mine, ABOUT, "name", "") == [name]
        assert await completed(mine, ABOUT, "other", "") == []
        assert await completed(mine, SESSION, "id", session[:6]) == [session]
        assert await completed(mine, SESSION, "id", session[:5]) == [], "ids are not handed out"

        for uri in ("memory://context", f"memory://entity/{name}", f"memory://session/{session}"):
            assert mark not in (await read(theirs, uri)).replace(session, "")
        assert await completed(theirs, ENTITY, "name", "quent") == []
        assert await completed(theirs, SESSION, "id", session[:6]) == []
        with pytest.raises(MCPError, match="session_id: found 'nonsense'; valid is a UUID"):
            await mine.read_resource("memory://session/nonsense")
