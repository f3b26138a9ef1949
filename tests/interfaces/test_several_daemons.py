"""Three daemons serve one butler: two of one home, one of another, behind HAProxy."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from butlers.db.embedded.shared_server import EmbeddedPostgres
from interfaces.balancer import needs_haproxy
from interfaces.daemons import butlers, operating, until
from interfaces.several import Fleet, fleet

pytestmark = [needs_haproxy, pytest.mark.slow]

BUTLER = """
[butler.schedule]
consolidate = { cron = "*/2 * * * * *" }
decay_sweep = { cron = "" }
episode_cleanup = { cron = "" }
count = { cron = "* * * * * *", prompt = "Count me" }

[runtime]
kind = "command"
command = ["sh", "-c", '''cat > $(mktemp PROMPTS/XXXXXX)
while [ -e WAIT ]; do sleep 0.1; done; echo 'ANSWER' ''']
"""
ANSWER = '{"new_facts": [], "updated_facts": [], "new_rules": [], "confirmations": []}'
CLIENTS = 64
LEASED = "select id from episodes where leased_until > now()"
READING = (
    "select id, worker from job_runs where job = 'consolidate' and outcome = 'running' "
    f"and exists ({LEASED})"
)
LATER = (
    "update job_runs set lease_until = lease_until - interval '1 hour'",
    "update episodes set leased_until = leased_until - interval '1 hour'",
)


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the model writes what it was asked."""
    return tmp_path_factory.mktemp("prompts")


@pytest.fixture(scope="module")
def served(
    postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory, prompts: Path
) -> Iterator[Fleet]:
    butler = BUTLER.replace("PROMPTS", str(prompts)).replace("ANSWER", ANSWER)
    butler = butler.replace("WAIT", str(waiting(prompts)))
    with fleet(postgres, tmp_path_factory.mktemp("balancer"), butler, homes=2) as one:
        first, second = one.homes
        for number, home in enumerate((first, first.of_process(2), second)):
            one.start(number, home).ready()
        until(lambda: all(_is_ready(daemon.url) for daemon in one.daemons))
        yield one


def waiting(prompts: Path) -> Path:
    """While there is such a file, the model does not answer."""
    return prompts.with_name("wait")


def asked(prompts: Path) -> list[str]:
    """All that the model was asked: sessions begin with who it is, consolidation does not."""
    return [file.read_text() for file in prompts.iterdir()]


def _is_ready(url: str) -> bool:
    return httpx2.get(f"{url}/ready", trust_env=False).status_code == 200


def new_token(served: Fleet, home: int, *more: str) -> tuple[str, str]:
    where = ("--butler", served.name, "--home", served.homes[home].root)
    allowed = operating(served.homes[home], served.name)
    told = butlers("token", "new", *where, *more, env=allowed)
    assert told.returncode == 0, told.stderr
    return told.stdout.split()[1], told.stdout.splitlines()[-1]


def test_one_home_tells_of_all_that_serve_it(served: Fleet) -> None:
    told = butlers("status", "--home", served.homes[0].root)
    assert told.returncode == 0, told.stderr
    first, second, _ = served.daemons
    assert first.url in told.stdout
    assert f"also served at {second.url}, process {second.process.pid}" in told.stdout
    assert "butlers are up" in first.log and "butlers are up" in second.log


def test_a_token_of_one_home_opens_all_and_is_refused_by_all_once_it_is_revoked(
    served: Fleet,
) -> None:
    number, token = new_token(served, 1, "--note", "everywhere")
    path = f"/api/butlers/{served.name}/memory/facts"
    codes = [served.get(path, token, daemon.url).status_code for daemon in served.daemons]
    assert codes == [200, 200, 200]
    assert not served.homes[1].tokens_file.exists()  # nor did it need a first one of its own
    listed = butlers("token", "list", "--home", served.homes[0].root).stdout
    assert re.search(rf"{number} +{served.name} .*never +20.*everywhere", listed)
    revoke = ("token", "revoke", number, "--home", served.homes[0].root)
    assert butlers(*revoke, env=operating(served.homes[0], served.name)).returncode == 0
    time.sleep(2)
    codes = [served.get(path, token, daemon.url).status_code for daemon in served.daemons]
    assert codes == [401, 401, 401]
    assert butlers(*revoke).returncode == 1


def test_a_browser_that_signed_in_is_known_everywhere_until_it_signs_out(served: Fleet) -> None:
    _, token = new_token(served, 0)
    urls = [daemon.url for daemon in served.daemons]
    page = f"/butlers/{served.name}/memory"
    with httpx2.Client(trust_env=False, timeout=60) as browser:
        form = {"token": token, "next": page}
        answer = browser.post(f"{urls[0]}/sign-in", data=form)
        assert (answer.status_code, answer.headers["location"]) == (303, page)
        pages = [browser.get(f"{url}{page}") for url in (*urls, served.url)]
        assert [one.status_code for one in pages] == [200] * 4
        [csrf] = set(re.findall(r'name="csrf" value="([^"]+)"', pages[1].text))
        kept = dict(browser.cookies)
        assert browser.post(f"{urls[1]}/sign-out", data={"csrf": csrf}).status_code == 303
        time.sleep(1.2)
        browser.cookies.update(kept)
        assert {browser.get(f"{url}{page}").status_code for url in urls} == {303}


async def test_a_client_of_mcp_is_answered_whoever_answers(served: Fleet) -> None:
    _, token = await asyncio.to_thread(new_token, served, 0)
    headers = {"Authorization": f"Bearer {token}"}
    for mode in ("auto", "legacy"):
        async with httpx2.AsyncClient(trust_env=False, headers=headers, timeout=60) as http:
            url = f"{served.url}/butlers/{served.name}/mcp"
            async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                for _ in range(6):
                    answer = await client.call_tool("memory_stats", {})
                    assert not answer.is_error


async def test_whatever_sixty_four_clients_store_is_read_once(served: Fleet, prompts: Path) -> None:
    _, token = await asyncio.to_thread(new_token, served, 1)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(trust_env=False, headers=headers, timeout=90) as http:

        async def client(number: int) -> list[int]:
            said = {"content": f"Parcel {number:03} was left with the neighbours."}
            asked = {"topic": f"where is parcel {number:03}"}
            sent = [("/episodes", said), ("/recall", asked)]
            answers = [await http.post(served.memory(path), json=body) for path, body in sent]
            return [answer.status_code for answer in answers]

        codes = await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    assert codes == [[201, 200]] * CLIENTS
    unread = "select 1 from episodes where content like 'Parcel%' and not consolidated"
    await asyncio.to_thread(until, lambda: not served.query(unread), 60)
    texts = [text for text in asked(prompts) if not text.startswith("You are ")]
    read = Counter(re.findall(r"Parcel \d{3} was left", "".join(texts)))
    assert len(read) == CLIENTS and set(read.values()) == {1}


def test_every_tick_runs_once_whoever_runs_it(served: Fleet, prompts: Path) -> None:
    runs = "select worker, attempt from job_runs where job = 'count' and outcome = 'ok'"
    until(lambda: len({run["worker"] for run in served.query(runs)}) > 1)
    ended = served.query(runs)
    sessions = [text for text in asked(prompts) if text.startswith("You are ")]
    begun = served.query("select 1 from job_runs where job = 'count'")
    assert {run["attempt"] for run in ended} == {1}
    assert len(ended) <= len(sessions) <= len(begun)


ENDED = "select outcome, error, attempt from job_runs where id = $1"


def test_who_is_killed_is_not_missed_and_what_it_held_is_taken_over(
    served: Fleet, prompts: Path
) -> None:
    _, token = new_token(served, 0)
    waiting(prompts).touch()
    said = {"content": "Umbrella: lent to the postman."}
    with httpx2.Client(trust_env=False, headers={"Authorization": f"Bearer {token}"}) as http:
        assert http.post(served.memory("/episodes"), json=said).status_code == 201
    until(lambda: bool(served.query(READING)))
    [held], leased = served.query(READING), [row["id"] for row in served.query(LEASED)]
    [killed] = [one for one in served.daemons if held["worker"].endswith(f":{one.process.pid}")]
    killed.kill()
    path = f"/api/butlers/{served.name}/memory/facts"
    assert {served.get(path, token).status_code for _ in range(20)} == {200}
    for statement in LATER:
        served.query(statement)
    waiting(prompts).unlink()
    unread = "select 1 from episodes where id = any($1) and not consolidated"
    until(lambda: not served.query(unread, leased))
    until(lambda: served.query(ENDED, held["id"])[0]["outcome"] != "running")
    [run] = served.query(ENDED, held["id"])
    given_up = run["outcome"] == "failed" and "the process that ran it ended" in run["error"]
    taken_over = run["outcome"] == "ok" and run["attempt"] > 1
    assert given_up or taken_over
    assert butlers("stop", "--home", served.homes[0].root).returncode == 0
    assert butlers("status", "--home", served.homes[0].root).returncode == 3
