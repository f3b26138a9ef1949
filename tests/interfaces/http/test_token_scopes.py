"""A token limited to scopes opens nothing else, by any route: they are those of the live API."""

import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from butlers.auth.rights import Right
from butlers.host.registry import KNOWN
from butlers.operation import Operation
from interfaces.daemons import Daemon, butlers, operating
from interfaces.http.callers import ApiCaller, calling, token_store, told
from interfaces.http.test_api_tenants import CASES, ROUTES, SECRET, addressed, filled
from interfaces.mcp.clients import over_http, refusal

HIDDEN = "xylophone"
"""Said by whatever the token must not see, and asked for by nobody."""
KEY = "/api/butlers/general/memory/facts/key"


@dataclass(frozen=True)
class Household:
    """A tenant with something of each kind that is private, global and of work."""

    owner: ApiCaller
    limited: ApiCaller
    private: dict[str, str]
    shared: dict[str, str]
    work: dict[str, str]


async def stored(owner: ApiCaller, scope: str, words: str) -> dict[str, str]:
    """One memory of each kind in a scope, and an entity that a fact there is about."""
    name = f"{SECRET} of {scope}"
    entity = await owner.post("/entities", {"canonical_name": name, "entity_type": "place"})
    fact = {"subject": name, "predicate": "is", "content": words, "scope": scope}
    rule = {"content": f"go to {words}", "scope": scope}
    episode = {"content": f"saw {words}", "butler": scope}
    return {
        "entity_id": entity["entity_id"],
        "fact_id": (await owner.post("/facts", fact | entity))["id"],
        "rule_id": (await owner.post("/rules", rule))["id"],
        "episode_id": (await owner.post("/episodes", episode))["id"],
    }


@pytest.fixture(scope="module")
async def household(daemon: Daemon) -> AsyncIterator[Household]:
    tenant = f"scoped-{uuid.uuid4().hex[:12]}"
    _, token = token_store(daemon.home).create(
        "general", tenant, rights=Right.OPERATE, scopes=["work", "errands"]
    )
    async with calling(daemon, tenant) as owner, calling(daemon, tenant, token=token) as limited:
        private = await stored(owner, "private", f"in {SECRET} with a {HIDDEN}")
        shared = await stored(owner, "global", "by the sea")
        work = await stored(owner, "work", "at the desk")
        drawn = {"source_id": work["fact_id"], "relation": "derived_from"}
        await owner.post("/links", drawn | {"target_id": private["episode_id"]})
        await owner.post("/links", drawn | {"target_id": private["fact_id"]})
        other = await stored(owner, "elsewhere", f"a {HIDDEN} too")
        events = await owner.get("/activity", limit=1)
        private |= {"other_id": other["entity_id"], "event_id": events["items"][0]["id"]}
        yield Household(owner, limited, private, shared, work)


def operations(document: dict[str, Any]) -> dict[tuple[str, str], Operation | None]:
    """The operation behind each route of the API, None for what is none."""
    known = {
        f"{one.tool}{route.path}": one
        for module in KNOWN.values()
        for one in module.operations
        for route in one.routes
    }
    return {
        (method, path): known.get(described["operationId"])
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    }


async def test_by_no_route_a_limited_token_finds_or_changes_what_is_in_another_scope(
    daemon: Daemon, household: Household
) -> None:
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
        routes = operations(told(await http.get(f"{daemon.url}/api/openapi.json")))
    assert sorted(routes) == ROUTES
    before = await _state(household)
    kept = set()
    for (method, path), operation in routes.items():
        how, _ = CASES[method, path]
        answer = await _asked(household, method, path, how, household.private)
        assert HIDDEN not in answer.text, (method, path)
        if operation is None or not operation.keeps_scopes:
            assert answer.status_code == 403, (method, path, answer.text)
            assert "this token is limited to work, errands" in answer.text, (method, path)
            continue
        kept.add(operation.name)
        imagined = {name: str(uuid.uuid4()) for name in household.private}
        never = await _asked(household, method, path, how, imagined)
        assert answer.status_code == never.status_code != 403, (method, path, answer.text)
        said = answer.text
        for name, id in household.private.items():
            said = said.replace(id, imagined[name])
        if "{" in path.removeprefix("/api/butlers/{name}"):
            assert said == never.text, (method, path)
        assert not any(id in said for id in household.private.values()), (method, path)
    assert {"get", "forget", "search", "store_fact", "explain", "history"} <= kept
    assert await _state(household) == before


async def _asked(
    household: Household, method: str, path: str, how: dict[str, Any], ids: dict[str, str]
) -> httpx2.Response:
    return await household.limited.send(method, addressed(path, ids), **filled(how, ids))


async def _state(household: Household) -> list[Any]:
    """What happened to all that the token must not change, and how often it was told."""
    told = []
    for kind in ("fact", "rule", "episode"):
        shared = await household.owner.get(f"/{kind}s/{household.shared[f'{kind}_id']}")
        private = await household.owner.get(f"/{kind}s/{household.private[f'{kind}_id']}")
        told += [shared["events"], private["events"], private["reference_count"]]
    return told


async def test_it_stores_in_its_scopes_and_what_names_none_goes_to_the_first(
    household: Household,
) -> None:
    limited, owner = household.limited, household.owner
    fact = {"subject": "Bo", "predicate": "likes", "content": "tea"}
    for given, kept in (({}, "work"), ({"scope": "errands"}, "errands")):
        id = (await limited.post("/facts", fact | given))["id"]
        assert (await owner.get(f"/memories/{id}"))["scope"] == kept
        assert (await limited.post(f"/facts/{id}/confirm"))["confirmed"]
        rule = (await limited.post("/rules", {"content": f"be kind, {kept}"} | given))["id"]
        assert (await owner.get(f"/memories/{rule}"))["scope"] == kept
    for given in ({}, {"butler": "general"}, {"butler": "work"}):
        id = (await limited.post("/episodes", {"content": "a walk"} | given))["id"]
        assert (await owner.get(f"/memories/{id}"))["butler"] == "work"
    for scope in ("global", "private", "general", "wörk", "work\x1fprivate"):
        status, why = await limited.refused("POST", "/facts", json=fact | {"scope": scope})
        assert status == 403 and "stores nowhere else" in why["message"]
    episode = {"content": "a walk", "butler": "private"}
    assert (await limited.refused("POST", "/episodes", json=episode))[0] == 403
    drawn = fact | {"source_episode_id": household.private["episode_id"]}
    assert (await limited.refused("POST", "/facts", json=drawn))[0] == 404
    both = [{"memory_type": "fact"} | fact | {"scope": scope} for scope in ("work", "private")]
    done = await limited.post("/memories/batch", {"memories": both})
    assert (done["stored"], done["failed"]) == (1, 1)
    assert "stores nowhere else" in done["results"][1]["error"]


async def test_it_reads_its_scopes_and_what_is_global_which_it_cannot_change(
    household: Household,
) -> None:
    limited, shared, work = household.limited, household.shared, household.work
    for ids in (shared, work):
        assert (await limited.get(f"/facts/{ids['fact_id']}"))["memory"]["id"] == ids["fact_id"]
        assert await limited.get(f"/history/{ids['rule_id']}")
    assert (await limited.get(f"/memories/{work['episode_id']}"))["content"] == "saw at the desk"
    explained = await limited.get(f"/facts/{work['fact_id']}")
    assert explained["links"] == explained["source_episodes"] == []
    assert await limited.get(f"/memories/{work['fact_id']}/links") == []
    listed = (await limited.get("/facts", limit=100))["items"]
    assert {one["scope"] for one in listed} <= {"global", "work", "errands"}
    assert {one["id"] for one in listed} >= {shared["fact_id"], work["fact_id"]}
    assert [one["id"] for one in (await limited.get("/facts", scope="global"))["items"]] == [
        shared["fact_id"]
    ]
    block = await limited.post("/context", {"trigger_prompt": "where is the sea and the desk?"})
    assert "by the sea" in block["text"] and "at the desk" in block["text"]
    found = (await limited.get("/search", query="sea desk", scope="work"))["items"]
    assert {one["id"] for one in found} >= {shared["fact_id"], work["fact_id"]}
    for path in ("/search?query=x&scope=private", "/facts?scope=private", "/episodes?butler=a"):
        status, why = await limited.refused("GET", path)
        assert status == 400 and "global, work, errands" in why["message"]
    for method, path, body in (
        ("POST", f"/facts/{shared['fact_id']}/forget", {}),
        ("POST", f"/facts/{shared['fact_id']}/correct", {"json": {"content": "x"}}),
        ("POST", f"/rules/{shared['rule_id']}/harmful", {"json": {"reason": "x"}}),
    ):
        status, why = await limited.refused(method, path, **body)
        assert status == 403 and "is global, and this token is limited" in why["message"]
    key = {"subject": "Kim", "predicate": "pin", "scope": "private"}
    await household.owner.post("/facts", key | {"content": f"the {HIDDEN}"})
    assert (await household.owner.get("/facts/key", **key))["subject"] == "Kim"
    assert (await limited.send("GET", f"{KEY}?subject=Kim&predicate=pin&scope=private")).is_error
    status, why = await limited.refused("GET", f"/memories/{work['fact_id'][:8]}")
    assert status == 400 and "a whole id" in why["message"]


async def test_agents_and_hooks_keep_to_the_scopes_of_their_token_and_pages_are_not_for_it(
    daemon: Daemon, household: Household
) -> None:
    token = household.limited.token
    kept = {one.tool for one in KNOWN["memory"].operations if one.keeps_scopes}
    async with over_http(daemon, token) as client:
        offered = {tool.name for tool in (await client.list_tools()).tools}
        assert offered < kept and "memory_store_fact" in offered
        refused = await refusal(client, "memory_run_consolidation")
        made = await client.call_tool("memory_store_rule", {"content": "knock first"})
    assert "this token is limited to work, errands" in refused
    id = made.structured_content["id"]
    assert (await household.owner.get(f"/memories/{id}"))["scope"] == "work"
    spoken = (("user", "The tuba is in the shed."), ("assistant", "Noted."))
    said = [{"type": who, "message": {"role": who, "content": text}} for who, text in spoken]
    hook = {"session_id": uuid.uuid4().hex, "cwd": "/work"}
    ended = hook | {"transcript": "\n".join(json.dumps(one) for one in said)}
    start = await household.limited.send("POST", "/butlers/general/hooks/SessionStart", json=hook)
    assert "at the desk" in start.text and HIDDEN not in start.text
    asked = hook | {"prompt": f"Where is the {HIDDEN} of {SECRET}?"}
    prompt = await household.limited.send(
        "POST", "/butlers/general/hooks/UserPromptSubmit", json=asked
    )
    assert prompt.status_code == 200 and HIDDEN not in prompt.text
    done = told(
        await household.limited.send("POST", "/butlers/general/hooks/SessionEnd", json=ended)
    )
    assert (await household.owner.get(f"/memories/{done['episode_id']}"))["butler"] == "work"
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
        page = await http.post(f"{daemon.url}/sign-in", data={"token": token, "next": ""})
    assert page.status_code == 403 and "limited to scopes" in page.text


def test_scopes_of_a_token_are_told_where_it_is_made_and_listed(daemon: Daemon) -> None:
    home = ("--home", daemon.home.root)
    scopes = ("--scope", "work", "--scope", "errands", "--note", "ltd")
    made = butlers("token", "new", *scopes, *home, env=operating(daemon.home))
    assert "may write in work, errands;" in made.stdout, made.stderr
    listed = butlers("token", "list", *home).stdout.splitlines()
    assert ["write in work, errands" in line for line in listed if "ltd" in line] == [True]
