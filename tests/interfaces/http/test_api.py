"""The API of one butler, over HTTP to a real daemon."""

import asyncio

import pytest

from butlers.interfaces.http.request_limits import MAX_BODY_BYTES
from interfaces.http.callers import ApiCaller, calling, told
from interfaces.mcp.clients import connect

JSON = {"Content-Type": "application/json"}
BUDGET = {"trigger_prompt": "x", "token_budget": -1}
TEA = {"subject": "Ann", "predicate": "likes", "content": "green tea"}


async def store_fact(caller: ApiCaller, **fields) -> str:
    return (await caller.post("/facts", TEA | fields))["id"]


async def events_of(caller: ApiCaller, path: str) -> list[str]:
    return [event["event_type"] for event in (await caller.get(path))["events"]]


@pytest.mark.contract("P7")
async def test_a_fact_stored_is_listed_found_and_explained(caller, tenant):
    fact = await store_fact(caller, tags=["home"], importance=7)
    listed = await caller.get("/facts", tag="home", state="active")
    assert [one["id"] for one in listed["items"]] == [fact]
    assert listed["next_cursor"] is None
    found = await caller.get("/search", query="what does Ann drink", types=["fact"])
    assert found["items"][0]["id"] == fact
    assert {"rrf_score", "semantic_rank", "keyword_rank"} <= found["items"][0].keys()
    detail = await caller.get(f"/facts/{fact}")
    assert detail["memory"]["importance"] == 7
    assert detail["memory"]["source_butler"] == "general"
    assert [event["event_type"] for event in detail["events"]] == ["fact_created"]
    assert detail["fades_at"] < detail["expires_at"]
    assert detail["forecast"][0]["confidence"] == pytest.approx(1.0)
    assert detail["forecast"][-1]["confidence"] == pytest.approx(0.05, abs=0.001)


async def test_a_batch_answers_for_each_of_its_memories(caller):
    given = [{"memory_type": "fact", **TEA}, {"memory_type": "fact"}, 7]
    answer = await caller.post("/memories/batch", {"memories": given})
    assert (answer["stored"], answer["failed"]) == (1, 2)
    good, missing, number = answer["results"]
    assert good.keys() == {"place", "memory_type", "id", "superseded_id"}
    assert (await caller.get(f"/facts/{good['id']}"))["memory"]["content"] == TEA["content"]
    assert missing["place"] == 1
    assert missing["error"].startswith("subject: required, but missing")
    assert number == {"place": 2, "error": "found 7; valid is a JSON object with memory_type"}
    status, error = await caller.refused("POST", "/memories/batch", json={"memories": [7] * 1_001})
    assert status == 422
    assert "at most 1000 items" in error["message"]


@pytest.mark.contract("P9", "N9.2")
async def test_every_change_is_in_the_feed_with_its_request_and_actor(caller, daemon, tenant):
    before = await caller.get("/activity")
    assert before["items"] == []
    fact = await store_fact(caller)
    seen = (await caller.get("/activity", limit=1))["items"][0]["id"]
    answer = await caller.send(
        "POST",
        f"/api/butlers/general/memory/facts/{fact}/confirm",
        headers={"X-Request-Id": "shift 7"},
    )
    assert told(answer) == {"confirmed": True}
    assert answer.headers["X-Request-Id"] == "shift 7"
    (event,) = (await caller.get("/activity", after=seen))["items"]
    assert (event["event_type"], event["request_id"]) == ("fact_confirmed", "shift 7")
    assert event["actor"].startswith("token:")
    assert await told_events(daemon, tenant, "shift 7") == ["fact_confirmed"]


async def told_events(daemon, tenant, request_id) -> list[str]:
    """What the audit stream itself says of a request."""
    rows = await connect(daemon.home)
    try:
        found = await rows.fetch(
            "select event_type from memory_events where tenant_id = $1 and request_id = $2",
            tenant,
            request_id,
        )
    finally:
        await rows.close()
    return [row["event_type"] for row in found]


@pytest.mark.contract("N9.2")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/facts", None),
        ("POST", "/recall", {"topic": "tea"}),
        ("POST", "/context", {"prompt": "tea for Ann"}),
        ("POST", "/facts", TEA),
        ("POST", "/facts", {}),
    ],
)
async def test_every_answer_names_its_request(caller, method, path, body):
    answer = await caller.send(
        method,
        f"/api/butlers/general/memory{path}",
        headers={"X-Request-Id": "shift 8"},
        json=body,
    )
    assert answer.headers["X-Request-Id"] == "shift 8"


async def test_a_request_without_an_id_is_given_one(caller):
    answer = await caller.send("POST", "/api/butlers/general/memory/facts", json=TEA)
    named = answer.headers["X-Request-Id"]
    (event,) = (await caller.get("/activity"))["items"]
    assert event["request_id"] == named
    other = await caller.send("GET", "/api/butlers", headers={"X-Request-Id": "x" * 201})
    assert len(other.headers["X-Request-Id"]) == 36


@pytest.mark.contract("P7", "L6")
async def test_a_fact_can_be_corrected_forgotten_and_restored(caller):
    fact = await store_fact(caller, scope="kitchen", tags=["drink"], importance=8)
    corrected = await caller.post(f"/facts/{fact}/correct", {"content": "black tea"})
    assert corrected["superseded_id"] == fact
    new = (await caller.get(f"/facts/{corrected['id']}"))["memory"]
    assert (new["content"], new["scope"], new["tags"]) == ("black tea", "kitchen", ["drink"])
    assert (new["importance"], new["subject"], new["state"]) == (8, "Ann", "active")
    old = await caller.get(f"/facts/{fact}")
    assert old["memory"]["state"] == "superseded"
    assert [one["id"] for one in old["replaced_by"]] == [corrected["id"]]
    status, error = await caller.refused(
        "POST", f"/facts/{fact}/correct", json={"content": "coffee"}
    )
    assert (status, error["field"]) == (409, "fact_id")

    assert await caller.post(f"/facts/{corrected['id']}/forget") == {"forgotten": True}
    assert await caller.post(f"/facts/{corrected['id']}/forget") == {"forgotten": False}
    assert await caller.post(f"/facts/{corrected['id']}/restore") == {"restored": True}
    assert await events_of(caller, f"/facts/{corrected['id']}") == [
        "fact_created",
        "fact_retracted",
        "fact_restored",
    ]


async def test_a_correction_can_change_how_long_it_lasts(caller):
    fact = await store_fact(caller)
    body = {"content": "tea", "permanence": "permanent", "importance": 10}
    corrected = await caller.post(f"/facts/{fact}/correct", body)
    detail = await caller.get(f"/facts/{corrected['id']}")
    assert (detail["memory"]["permanence"], detail["memory"]["importance"]) == ("permanent", 10)
    assert detail["fades_at"] is None
    assert {point["confidence"] for point in detail["forecast"]} == {1.0}


async def test_restoring_into_a_taken_place_is_a_conflict(caller):
    fact = await store_fact(caller)
    await caller.post(f"/facts/{fact}/forget")
    holder = await store_fact(caller, content="coffee")
    status, error = await caller.refused("POST", f"/facts/{fact}/restore")
    assert status == 409
    assert holder in error["message"]


@pytest.mark.contract("P7")
async def test_a_rule_is_marked_confirmed_forgotten_and_restored(caller):
    rule = (await caller.post("/rules", {"content": "warm the pot", "tags": ["tea"]}))["id"]
    assert (await caller.post(f"/rules/{rule}/helpful"))["success_count"] == 1
    marked = await caller.post(f"/rules/{rule}/harmful", {"reason": "the pot cracked"})
    assert (marked["harmful_count"], marked["applied_count"]) == (1, 2)
    assert await caller.post(f"/rules/{rule}/confirm") == {"confirmed": True}
    detail = await caller.get(f"/rules/{rule}")
    assert [one["reason"] for one in detail["applications"]] == ["the pot cracked", None]
    assert await caller.post(f"/rules/{rule}/forget") == {"forgotten": True}
    assert (await caller.get("/rules", state="forgotten"))["items"][0]["id"] == rule
    status, _ = await caller.refused("POST", f"/rules/{rule}/helpful")
    assert status == 404
    assert await caller.post(f"/rules/{rule}/restore") == {"restored": True}
    assert (await caller.get("/rules", maturity="candidate", tag="tea"))["items"][0]["id"] == rule


async def test_an_episode_is_stored_listed_and_forgotten(caller):
    stored = await caller.post("/episodes", {"content": "Ann came for tea"})
    (listed,) = (await caller.get("/episodes", status="pending", butler="general"))["items"]
    assert (listed["id"], listed["state"]) == (stored["id"], "active")
    assert await caller.post(f"/episodes/{stored['id']}/forget") == {"forgotten": True}
    assert (await caller.get("/episodes", state="active"))["items"] == []
    assert await events_of(caller, f"/episodes/{stored['id']}") == [
        "episode_created",
        "episode_forgotten",
    ]


async def test_an_idempotency_key_stores_once(caller):
    once = TEA | {"idempotency_key": "k"}
    assert (await caller.post("/facts", once))["id"] == (await caller.post("/facts", once))["id"]


async def test_pages_are_walked_by_cursor(caller):
    stored = {await store_fact(caller, predicate=f"p{n}") for n in range(5)}
    seen, cursor = [], {}
    while True:
        page = await caller.get("/facts", limit=2, **cursor)
        seen += [one["id"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert len(seen) == 5
    assert set(seen) == stored


async def test_entities_are_created_changed_merged_and_shown(caller):
    ann = await caller.post("/entities", {"canonical_name": "Ann", "entity_type": "person"})
    anna = await caller.post(
        "/entities", {"canonical_name": "Anna", "entity_type": "person", "aliases": ["Annie"]}
    )
    ids = [ann["entity_id"], anna["entity_id"]]
    status, error = await caller.refused(
        "POST", "/entities", json={"canonical_name": "Ann", "entity_type": "person"}
    )
    assert (status, error["field"]) == (409, "canonical_name")
    fact = await store_fact(caller, entity_id=ids[1])
    changed = await caller.patch(f"/entities/{ids[0]}", {"aliases": ["A."]})
    assert changed["aliases"] == ["A."]
    pair = {"source_entity_id": ids[1], "target_entity_id": ids[0]}
    preview = await caller.get("/entities/merge", **pair)
    assert (await caller.get("/entities", state="merged"))["items"] == []
    assert (await caller.post("/entities/merge", pair)).items() <= preview.items()
    assert preview["facts_repointed"] == 1
    assert [one["id"] for one in preview["repointed"]] == [fact]
    detail = await caller.get(f"/entities/{ids[0]}")
    assert [one["id"] for one in detail["facts"]] == [fact]
    assert detail["events"][-1]["event_type"] == "entity_merge"
    assert (await caller.get("/entities", name="annie", state="active"))["items"][0][
        "active_facts"
    ] == 1
    parted = await caller.post(f"/entities/{ids[1]}/unmerge")
    assert (parted["target_entity_id"], parted["facts_returned"]) == (ids[0], 1)
    assert (await caller.get(f"/entities/{ids[0]}"))["entity"]["aliases"] == ["A."]
    assert (await caller.refused("POST", f"/entities/{ids[1]}/unmerge"))[0] == 409


async def test_counts_and_overview(caller):
    await store_fact(caller)
    await caller.post("/episodes", {"content": "tea"})
    stats = await caller.get("/stats")
    assert (stats["facts"]["active"], stats["episodes"]["unconsolidated"]) == (1, 1)
    overview = await caller.get("/overview")
    assert overview["health"] == "ok"
    assert overview["last_consolidated_at"] is None
    assert overview["facts"] == stats["facts"]


@pytest.mark.contract("P9")
async def test_a_glance_is_overview_newest_events_and_jobs_in_one(caller):
    for number in range(3):
        await store_fact(caller, predicate=f"likes {number}")
    glance = await caller.get("/glance", events=2)
    assert glance["overview"] == await caller.get("/overview")
    assert glance["overview"]["facts"]["active"] == 3
    assert glance["activity"] == (await caller.get("/activity", limit=2))["items"]
    jobs = await caller.get("/jobs")
    assert jobs["clock_doubt"] is None
    assert glance["plan"] == {key: jobs[key] for key in ("jobs", "may_run", "clock_doubt")}
    assert {job["name"] for job in glance["plan"]["jobs"]} >= {"consolidate", "decay_sweep"}


@pytest.mark.contract("R08.3")
async def test_recalling_is_a_use_and_previewing_is_not(caller):
    fact = await store_fact(caller)
    shown = await caller.post(
        "/context/preview", {"trigger_prompt": "tea for Ann", "token_budget": 200}
    )
    assert "green tea" in shown["text"]
    assert shown["tokens"] <= 200
    (line,) = shown["sections"][0]["included"]
    assert line["id"] == fact
    assert line["score_parts"].keys() == {"relevance", "importance", "recency", "confidence"}
    assert (await caller.get(f"/facts/{fact}"))["reference_count"] == 0
    recalled = await caller.post("/recall", {"topic": "tea"})
    assert recalled[0]["composite_score"] > 0
    assert (await caller.get(f"/facts/{fact}"))["reference_count"] == 1


@pytest.mark.contract("P9")
async def test_jobs_are_listed_and_run_by_the_butlers_own_tenant(daemon, caller):
    from interfaces.http.callers import calling

    listed = await caller.get("/jobs")
    names = {job["name"] for job in listed["jobs"]}
    assert {"consolidate", "decay_sweep", "episode_cleanup"} <= names
    assert all(job["next_at"] for job in listed["jobs"] if job["cron"])
    assert listed["may_run"] is False
    status, error = await caller.refused("POST", "/jobs/episode_cleanup/run")
    assert status == 403
    async with calling(daemon, "default") as own:
        ran = await own.post("/jobs/episode_cleanup/run")
        assert ran["run"]["outcome"] == "ok"
        assert (ran["run"]["cause"], ran["run"]["result"]) == ("request", None)
        after = await own.get("/jobs")
        assert after["may_run"] is True
        assert after["history"][0]["job"] == "episode_cleanup"
        status, error = await own.refused("POST", "/jobs/nothing/run")
        assert (status, "decay_sweep" in error["message"]) == (404, True)


@pytest.mark.parametrize(
    ("method", "path", "how", "status", "field"),
    [
        ("GET", "/facts", {"params": {"state": "fresh"}}, 422, "state"),
        ("GET", "/facts", {"params": {"limit": 0}}, 422, "limit"),
        ("GET", "/facts", {"params": {"limit": 101}}, 422, "limit"),
        ("GET", "/facts", {"params": {"colour": "red"}}, 422, "colour"),
        ("GET", "/facts", {"params": {"cursor": "x"}}, 400, "cursor"),
        ("GET", "/facts", {"params": {"created_after": "2026-01-01"}}, 422, "created_after"),
        ("GET", "/facts/7", {}, 422, "fact_id"),
        ("GET", f"/facts/{'0' * 32}", {}, 404, "fact_id"),
        ("GET", f"/rules/{'0' * 32}", {}, 404, "rule_id"),
        ("GET", f"/entities/{'0' * 32}", {}, 404, "entity_id"),
        ("GET", "/activity", {"params": {"after": "0" * 32}}, 400, "after"),
        ("POST", "/facts", {"json": {}}, 422, "subject"),
        ("POST", "/facts", {"json": TEA | {"tenant_id": "x"}}, 422, "tenant_id"),
        ("POST", "/facts", {"json": TEA | {"subject": " "}}, 400, "subject"),
        ("POST", "/facts", {"json": TEA | {"content": "x" * 20_001}}, 400, "content"),
        ("POST", "/facts", {"json": TEA | {"entity_id": "0" * 32}}, 404, "entity_id"),
        ("POST", "/facts", {"content": b"{", "headers": JSON}, 422, None),
        ("POST", "/facts", {"content": b"{}"}, 422, None),
        ("POST", "/facts", {"json": ["x"]}, 422, None),
        ("POST", f"/rules/{'0' * 32}/helpful", {}, 404, "rule_id"),
        ("POST", "/entities/merge", {"json": {}}, 422, "source_entity_id"),
        (
            "POST",
            "/context",
            {"json": {"trigger_prompt": "x", "token_budget": -1}},
            422,
            "token_budget",
        ),
    ],
)
async def test_what_cannot_be_is_refused_by_field(caller, method, path, how, status, field):
    found, error = await caller.refused(method, path, **how)
    assert (found, error.get("field")) == (status, field)
    assert error["message"]


async def test_a_long_value_is_not_sent_back_whole(caller):
    status, error = await caller.refused("POST", "/facts", json=TEA | {"subject": "x" * 100_000})
    assert (status, error["field"]) == (400, "subject")
    assert "found a text of 100000 characters; valid is at most" in error["message"]
    assert len(error["message"]) < 500
    status, error = await caller.refused("POST", "/facts", json=TEA | {"entity_id": "x" * 100_000})
    assert (status, error["field"]) == (422, "entity_id")
    assert len(error["message"]) < 500


async def test_text_that_utf8_cannot_carry_is_answered_all_the_same(caller):
    body = rb'{"subject": "Ann", "predicate": "\ud800", "content": "\u0000tea", "x\ud800": 1}'
    answer = await caller.send("POST", "/api/butlers/general/memory/facts", content=body)
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_that_is_too_large_is_refused(caller, declared):
    body = b" " * (MAX_BODY_BYTES + 1)

    async def parts():
        yield body

    content = body if declared else parts()
    answer = await caller.send("POST", "/api/butlers/general/memory/facts", content=content)
    assert answer.status_code == 413
    assert str(MAX_BODY_BYTES) in answer.json()["error"]["message"]


async def test_a_path_nobody_serves_is_answered_in_the_same_shape(caller):
    for path in ("/api/nothing", "/api/butlers/general/memory/facts/"):
        answer = await caller.send("GET", path)
        assert answer.status_code == 404
        assert answer.json()["error"]["message"]
    wrong = await caller.send("DELETE", "/api/butlers/general/memory/facts")
    assert wrong.status_code == 405
    assert wrong.json()["error"]["message"]


async def test_a_module_that_a_butler_does_not_have_is_not_there(daemon, tenant):
    async with calling(daemon, tenant, "kitchen") as caller:
        answer = await caller.send("GET", "/api/butlers/kitchen/notes")
    assert answer.status_code == 404
    said = answer.json()["error"]["message"]
    assert said == "butler kitchen does not have the notebook module"


async def test_two_corrections_at_once_leave_one_fact(caller):
    fact = await store_fact(caller)
    both = await asyncio.gather(
        *(
            caller.send(
                "POST",
                f"/api/butlers/general/memory/facts/{fact}/correct",
                json={"content": f"tea {n}"},
            )
            for n in range(2)
        )
    )
    assert {answer.status_code for answer in both} <= {201, 409}
    assert len((await caller.get("/facts", state="active"))["items"]) == 1


async def test_the_host_header_is_guarded(caller):
    answer = await caller.send("GET", "/api/butlers", headers={"Host": "evil.example"})
    assert answer.status_code == 400


@pytest.mark.contract("L25")
async def test_a_forgotten_episode_is_restored(caller):
    stored = await caller.post("/episodes", {"content": "the boiler is a Vaillant"})
    path = f"/episodes/{stored['id']}"
    assert await caller.post(f"{path}/restore") == {"restored": False}
    await caller.post(f"{path}/forget")
    assert await caller.get("/search", query="boiler") == {"items": []}
    assert await caller.post(f"{path}/restore") == {"restored": True}
    assert len((await caller.get("/search", query="boiler"))["items"]) == 1
    assert await caller.get("/bin") == []
