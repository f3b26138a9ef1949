"""Nobody reaches another's memory by any route: the routes are those of the OpenAPI document."""

import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from interfaces.http.callers import ApiCaller, calling, told

BELOW = "/api/butlers/{name}/memory"
NOTES = "/api/butlers/{name}/notes"
SECRET = "zanzibar"


class Stored:
    """What one tenant has: a thing of each kind, all of them saying the same secret word."""

    def __init__(self, ids: dict[str, str]) -> None:
        self.ids = ids

    @classmethod
    async def by(cls, caller: ApiCaller) -> "Stored":
        entity = {"canonical_name": SECRET, "entity_type": "place"}
        other = {"canonical_name": f"{SECRET} old", "entity_type": "place"}
        fact = {"subject": SECRET, "predicate": "is", "content": f"in {SECRET}", "tags": [SECRET]}
        ids = {
            "entity_id": (await caller.post("/entities", entity))["entity_id"],
            "other_id": (await caller.post("/entities", other))["entity_id"],
            "fact_id": (await caller.post("/facts", fact))["id"],
            "rule_id": (await caller.post("/rules", {"content": f"go to {SECRET}"}))["id"],
            "episode_id": (await caller.post("/episodes", {"content": f"saw {SECRET}"}))["id"],
        }
        ids["event_id"] = (await caller.get("/activity", limit=1))["items"][0]["id"]
        return cls(ids)


# How a stranger asks each route for what is not its own: query or body; and which answer is right
# when none of it exists. Every route must be here.
NOTHING = object()
ANSWERS_NONE: list[Any] = []
"""An answer that is itself an empty list."""
CASES: dict[tuple[str, str], tuple[dict[str, Any], Any]] = {
    ("get", f"{BELOW}/facts"): ({"params": {"subject": SECRET}}, []),
    ("get", f"{BELOW}/rules"): ({}, []),
    ("get", f"{BELOW}/episodes"): ({}, []),
    ("get", f"{BELOW}/entities"): ({"params": {"name": SECRET}}, []),
    ("get", f"{BELOW}/activity"): ({"params": {"after": "{event_id}"}}, 400),
    ("get", f"{BELOW}/facts/{{fact_id}}"): ({}, 404),
    ("get", f"{BELOW}/rules/{{rule_id}}"): ({}, 404),
    ("get", f"{BELOW}/episodes/{{episode_id}}"): ({}, 404),
    ("get", f"{BELOW}/entities/{{entity_id}}"): ({}, 404),
    ("get", f"{BELOW}/stats"): ({}, NOTHING),
    ("get", f"{BELOW}/overview"): ({}, NOTHING),
    ("get", f"{BELOW}/glance"): ({}, NOTHING),
    ("get", f"{BELOW}/search"): ({"params": {"query": SECRET, "min_confidence": 0}}, []),
    ("post", f"{BELOW}/recall"): ({"json": {"topic": SECRET}}, NOTHING),
    ("post", f"{BELOW}/context"): ({"json": {"trigger_prompt": SECRET}}, NOTHING),
    ("post", f"{BELOW}/context/preview"): ({"json": {"trigger_prompt": SECRET}}, NOTHING),
    ("get", f"{BELOW}/facts/key"): ({"params": {"subject": SECRET, "predicate": "is"}}, 404),
    ("get", f"{BELOW}/memories/{{memory_id}}"): ({}, 404),
    ("get", f"{BELOW}/memories/{{memory_id}}/links"): ({}, 404),
    ("get", f"{BELOW}/history/{{memory_id}}"): ({}, ANSWERS_NONE),
    ("get", f"{BELOW}/timeline"): ({}, NOTHING),
    ("get", f"{BELOW}/dead-letters"): ({}, ANSWERS_NONE),
    ("get", f"{BELOW}/bin"): ({}, ANSWERS_NONE),
    ("get", f"{BELOW}/events/verify"): ({}, NOTHING),
    ("post", f"{BELOW}/dead-letters/requeue"): (
        {"json": {"episode_ids": ["{episode_id}"]}},
        {"requeued": 0},
    ),
    ("post", f"{BELOW}/consolidation/claim"): ({}, NOTHING),
    ("post", f"{BELOW}/consolidation/submit"): (
        {"json": {"claim_id": "{episode_id}", "answer": {}}},
        409,
    ),
    ("get", f"{BELOW}/proposals"): ({}, {"proposals": []}),
    ("post", f"{BELOW}/proposals/{{proposal_id}}/accept"): ({}, 404),
    ("post", f"{BELOW}/proposals/{{proposal_id}}/decline"): ({}, {"declined": False}),
    ("get", f"{BELOW}/conflicts"): ({}, {"items": [], "next_cursor": None}),
    ("post", f"{BELOW}/conflicts/{{conflict_id}}/settle"): (
        {"json": {"holds": "newer"}},
        404,
    ),
    ("get", f"{BELOW}/predicates"): ({}, {"predicates": []}),
    ("post", f"{BELOW}/predicates"): (
        {"json": {"predicate": "mascot", "holds": "one"}},
        {"predicate": "mascot", "holds": "one"},
    ),
    ("get", f"{BELOW}/doubts"): ({}, 200),
    ("post", f"{BELOW}/doubts/{{memory_id}}/keep"): ({}, 404),
    ("get", f"{BELOW}/decisions"): ({}, {"items": []}),
    ("post", f"{BELOW}/decisions/{{memory_id}}/restore"): ({}, {"reinstated": False}),
    ("post", f"{BELOW}/decisions/{{memory_id}}/retire"): ({}, {"retired": False}),
    ("get", f"{BELOW}/inbox"): ({}, {"items": []}),
    ("get", f"{BELOW}/quarantine"): ({}, 409),
    ("post", f"{BELOW}/quarantine/{{memory_id}}/accept"): ({}, 404),
    ("post", f"{BELOW}/quarantine/{{memory_id}}/reject"): ({}, 404),
    ("post", f"{BELOW}/undo"): ({"json": {"episode": "{episode_id}"}}, 409),
    ("get", f"{BELOW}/projects"): ({}, []),
    ("get", f"{BELOW}/projects/{{project}}"): ({}, 404),
    ("post", f"{BELOW}/projects/{{project}}/share"): ({}, 404),
    ("post", f"{BELOW}/projects/{{project}}/move"): ({"json": {"to": "{fact_id}"}}, 404),
    ("post", "/api/butlers/{name}/ask"): ({"json": {"prompt": SECRET}}, 403),
    ("get", "/api/butlers/{name}/sessions"): ({}, {"sessions": []}),
    ("get", "/api/butlers/{name}/sessions/{session_id}"): ({}, 404),
    ("get", "/api/butlers/{name}/sessions/{session_id}/injections"): ({}, 404),
    ("get", "/api/butlers/{name}/sessions/{session_id}/why-not"): (
        {"params": {"memory": SECRET}},
        404,
    ),
    ("get", "/api/butlers/{name}/worth"): ({}, NOTHING),
    ("get", "/api/butlers/{name}/export"): ({}, NOTHING),
    ("post", "/api/butlers/{name}/import"): ({"content": "{}"}, 403),
    ("post", "/api/butlers/{name}/erase/preview"): (
        {"json": {"about": SECRET}},
        {"counts": {}, "found": []},
    ),
    ("post", "/api/butlers/{name}/erase"): ({"json": {"entity": "{entity_id}"}}, 403),
    ("post", "/api/butlers/{name}/erase/verify"): ({"json": {"receipt": {"a": 1}}}, 400),
    ("get", "/api/butlers/{name}/removal"): ({}, 403),
    ("get", f"{BELOW}/models"): ({}, NOTHING),
    ("post", f"{BELOW}/consolidation"): ({}, NOTHING),
    ("post", f"{BELOW}/episodes/cleanup"): ({"json": {"max_entries": 0}}, NOTHING),
    ("post", f"{BELOW}/facts/{{fact_id}}/undo"): ({}, 404),
    ("post", f"{BELOW}/links"): (
        {"json": {"source_id": "{fact_id}", "relation": "supports", "target_id": "{rule_id}"}},
        404,
    ),
    ("get", f"{BELOW}/entities/{{entity_id}}/names"): ({}, 404),
    ("post", f"{BELOW}/entities/resolve"): ({"json": {"name": SECRET}}, ANSWERS_NONE),
    ("post", f"{NOTES}"): ({"json": {"key": "mine", "content": "x"}}, NOTHING),
    ("get", f"{NOTES}"): ({}, NOTHING),
    ("get", f"{NOTES}/search"): ({"params": {"query": SECRET}}, NOTHING),
    ("get", f"{NOTES}/stats"): ({}, 403),
    ("post", f"{NOTES}/summarize"): ({}, 403),
    ("get", f"{NOTES}/{{key}}"): ({}, 404),
    ("get", f"{NOTES}/{{key}}/related"): ({}, 404),
    ("post", f"{BELOW}/facts"): (
        {"json": {"subject": "a", "predicate": "b", "content": "c", "entity_id": "{entity_id}"}},
        404,
    ),
    ("post", f"{BELOW}/rules"): ({"json": {"content": "mine"}}, NOTHING),
    ("post", f"{BELOW}/episodes"): ({"json": {"content": "mine"}}, NOTHING),
    ("post", f"{BELOW}/memories/batch"): (
        {"json": {"memories": [{"memory_type": "rule", "content": "mine"}]}},
        NOTHING,
    ),
    ("post", f"{BELOW}/facts/{{fact_id}}/correct"): ({"json": {"content": "x"}}, 404),
    ("post", f"{BELOW}/facts/{{fact_id}}/confirm"): ({}, {"confirmed": False}),
    ("post", f"{BELOW}/facts/{{fact_id}}/forget"): ({}, {"forgotten": False}),
    ("post", f"{BELOW}/facts/{{fact_id}}/restore"): ({}, {"restored": False}),
    ("post", f"{BELOW}/rules/{{rule_id}}/confirm"): ({}, {"confirmed": False}),
    ("post", f"{BELOW}/rules/{{rule_id}}/helpful"): ({}, 404),
    ("post", f"{BELOW}/rules/{{rule_id}}/harmful"): ({"json": {"reason": "x"}}, 404),
    ("post", f"{BELOW}/rules/{{rule_id}}/forget"): ({}, {"forgotten": False}),
    ("post", f"{BELOW}/rules/{{rule_id}}/restore"): ({}, {"restored": False}),
    ("post", f"{BELOW}/episodes/{{episode_id}}/forget"): ({}, {"forgotten": False}),
    ("post", f"{BELOW}/episodes/{{episode_id}}/restore"): ({}, {"restored": False}),
    ("post", f"{BELOW}/entities"): (
        # The same name is free for another tenant: a refusal would tell that it is known.
        {"json": {"canonical_name": SECRET, "entity_type": "place"}},
        NOTHING,
    ),
    ("get", f"{BELOW}/entities/merge"): (
        {"params": {"source_entity_id": "{entity_id}", "target_entity_id": "{other_id}"}},
        404,
    ),
    ("post", f"{BELOW}/entities/merge"): (
        {"json": {"source_entity_id": "{entity_id}", "target_entity_id": "{other_id}"}},
        404,
    ),
    ("post", f"{BELOW}/entities/{{entity_id}}/unmerge"): ({}, 404),
    ("patch", f"{BELOW}/entities/{{entity_id}}"): ({"json": {"aliases": ["x"]}}, 404),
    ("get", f"{BELOW}/jobs"): ({}, NOTHING),
    ("post", f"{BELOW}/jobs/clock"): ({}, 403),
    ("post", f"{BELOW}/jobs/{{job}}/run"): ({}, 403),
    ("get", "/api/butlers"): ({}, {"butlers": ["general"]}),
    ("get", "/api/memory/overview"): ({}, NOTHING),
    ("get", "/api/memory/search"): ({"params": {"query": SECRET, "min_confidence": 0}}, []),
    ("get", "/api/memory/activity"): ({}, []),
    ("get", "/api/memory/jobs"): ({}, NOTHING),
    ("get", "/api/backups"): ({}, 403),
    ("post", "/api/backups"): ({}, 403),
    ("post", "/api/backups/verify"): ({"json": {}}, 403),
}
ROUTES = sorted(CASES)


def filled(how: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    """The arguments with another's ids in place of their names."""
    written = json.dumps(how)
    for name, value in ids.items():
        written = written.replace(f"{{{name}}}", value)
    return dict(json.loads(written))


def addressed(path: str, ids: dict[str, str], butler: str = "general") -> str:
    named = ("memory_id", "proposal_id", "conflict_id", "project", "session_id")
    also = dict.fromkeys(named, ids["fact_id"])
    return path.format(name=butler, job="decay_sweep", key=SECRET, **also, **ids)


@pytest.fixture(scope="module")
async def owner(daemon) -> AsyncIterator[ApiCaller]:
    """The tenant whose memory all the others are after."""
    async with calling(daemon, f"owner-{uuid.uuid4().hex[:12]}") as one:
        yield one


@pytest.fixture(scope="module")
async def owned(owner) -> Stored:
    return await Stored.by(owner)


@pytest.fixture
async def document(daemon) -> dict[str, Any]:
    async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=60) as http:
        return told(await http.get(f"{daemon.url}/api/openapi.json"))


async def test_every_route_has_its_case(document):
    routes = {(method, path) for path, methods in document["paths"].items() for method in methods}
    assert routes == CASES.keys()


@pytest.mark.contract("L1", "N9.3")
async def test_no_argument_anywhere_names_a_tenant(document):
    assert "tenant" not in json.dumps(document["paths"])
    asked = [
        schema
        for name, schema in document["components"]["schemas"].items()
        if schema.get("additionalProperties") is False
    ]
    assert len(asked) >= 10
    assert all("tenant_id" not in schema["properties"] for schema in asked)


@pytest.mark.contract("L1", "N9.3")
@pytest.mark.parametrize(("method", "path"), ROUTES, ids=[f"{m} {p}" for m, p in ROUTES])
async def test_another_tenant_gets_what_it_would_get_if_nothing_were_there(
    owner, owned, stranger, method, path
):
    how, right = CASES[method, path]
    answer = await stranger.send(method, addressed(path, owned.ids), **filled(how, owned.ids))
    imagined = {name: str(uuid.uuid4()) for name in owned.ids}
    never = await stranger.send(method, addressed(path, imagined), **filled(how, imagined))
    check(answer, never, right, owned.ids, imagined)
    await unharmed(owner, owned)


def check(answer, never, right, ids, imagined):
    """The answer is the right one, and the same as for ids that never were."""
    said = answer.text
    if isinstance(right, int):
        assert answer.status_code == right
    elif right is ANSWERS_NONE:
        assert told(answer) == []
    elif isinstance(right, list):
        assert told(answer)["items"] == right
    elif right is not NOTHING:
        assert told(answer) == right
    if right is NOTHING:
        assert answer.is_success or answer.status_code == 409, said
        assert not any(value in said for value in ids.values())
        return
    for name, value in ids.items():
        said = said.replace(value, imagined[name])
    assert (said, answer.status_code) == (never.text, never.status_code)


async def unharmed(caller: ApiCaller, owned: Stored) -> None:
    """Nothing of the owner's has changed, and no event tells of a change."""
    fact = await caller.get(f"/facts/{owned.ids['fact_id']}")
    assert (fact["memory"]["state"], fact["reference_count"]) == ("active", 0)
    assert (await caller.get(f"/rules/{owned.ids['rule_id']}"))["memory"]["state"] == "active"
    assert len((await caller.get("/activity", limit=100))["items"]) == 5


NAMES = ("fact_id", "rule_id", "episode_id", "entity_id")


@pytest.mark.contract("N9.3")
@pytest.mark.parametrize(("method", "path"), ROUTES, ids=[f"{m} {p}" for m, p in ROUTES])
async def test_without_a_valid_token_nothing_is_answered(daemon, method, path):
    ids = {name: str(uuid.uuid4()) for name in NAMES}
    for header in ({}, {"Authorization": "Bearer btl_wrong"}, {"Authorization": "Basic eDp5"}):
        async with httpx2.AsyncClient(trust_env=False, verify=False) as http:
            answer = await http.request(method, daemon.url + addressed(path, ids), headers=header)
        assert answer.status_code == 401
        assert answer.json()["error"]["message"]
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.contract("N9.3")
async def test_a_token_opens_its_own_butler_alone(daemon, tenant):
    """A butler that is there and one that is not are refused in the same words."""
    async with calling(daemon, tenant, "general") as caller:
        answers = [
            await caller.send("GET", f"/api/butlers/{name}/memory/stats")
            for name in ("kitchen", "nowhere")
        ]
    assert [answer.status_code for answer in answers] == [404, 404]
    said = [answer.json()["error"]["message"] for answer in answers]
    assert said[0].replace("kitchen", "nowhere") == said[1]


@pytest.mark.contract("N9.3")
async def test_a_revoked_token_is_refused_from_the_next_request_on(daemon, tenant):
    from interfaces.http.callers import token_store

    record, token = token_store(daemon.home).create("general", tenant)
    async with calling(daemon, tenant, token=token) as caller:
        await caller.get("/stats")
        token_store(daemon.home).revoke(record.id)
        status, _ = await caller.refused("GET", "/stats")
    assert status == 401
