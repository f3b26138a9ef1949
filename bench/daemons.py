"""How much more several processes answer than one: 64 clients that recall and store.

    python -m bench daemons [clients] [seconds]

One PostgreSQL, one home, and one, two, then three `butlers up` behind HAProxy, configured as
docs/operations.md says. Of four requests one stores. Told are answers a second, how many times
those of one process that is, and how busy the machine was: once its processors are full, more
processes only share them.
"""

import asyncio
import multiprocessing
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.host.home import Home

CLIENTS, SECONDS, MOST_PROCESSES = 64, 20.0, 3
TENANTS, FACTS = 16, 50
BUTLER = "general"
START_SECONDS = 180.0
# With the processors full already, more processes need not answer more.
FULL, LEAST_OF_TWO = 0.9, 1.3
_DOCUMENTED = Path(__file__).parents[1] / "docs" / "operations.md"
_HOUSE = '[database]\nurl = "{url}"\n[server]\nrequests_per_minute = 1000000\n'


def main(options: Sequence[str] = ()) -> int:
    """Measure, and say whether two processes answered enough more than one."""
    clients, seconds = [*map(float, options), *(CLIENTS, SECONDS)[len(options) :]][:2]
    haproxy = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin")
    if haproxy is None:
        print("haproxy is not installed here")
        return 0
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        Path(place).chmod(0o755)
        postgres = stack.enter_context(EmbeddedPostgres(Path(place) / "pg"))
        home = _home(Path(place), postgres.dsn())
        ports = _free_ports(MOST_PROCESSES + 1)
        url = stack.enter_context(_balanced(haproxy, Path(place), ports))
        return _measured(home, ports[1:], url, stack, int(clients), seconds)


def _measured(
    home: Home, ports: Sequence[int], url: str, stack: ExitStack, clients: int, seconds: float
) -> int:
    told: list[tuple[float, float]] = []
    tokens: list[str] = []
    for port in ports:
        stack.enter_context(_process(home, port))
        tokens = tokens or _furnished(home, url)
        time.sleep(2)  # for the balancer to notice
        told.append(_asked(url, tokens, clients, seconds))
        a_second, busy = told[-1]
        times = a_second / told[0][0]
        print(f"{len(told)} processes: {a_second:.0f} answers a second, {times:.2f} times one; "
              f"processors {busy:.0%} busy")  # fmt: skip
    return 0 if told[0][1] >= FULL or told[1][0] / told[0][0] >= LEAST_OF_TWO else 1


def _home(place: Path, url: str) -> Home:
    home = Home(place / "home")
    home.create_butler(BUTLER)
    home.settings_file.write_text(_HOUSE.format(url=url))
    return home


@contextmanager
def _process(home: Home, port: int) -> Iterator[None]:
    """One `butlers up` that is ready."""
    command = [sys.executable, "-m", "butlers", "up", "--home", str(home.root), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _is_ready(port):
            assert process.poll() is None and time.monotonic() < deadline, "it did not start"
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait(60)


def _is_ready(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/ready", trust_env=False).status_code == 200
    except httpx2.HTTPError:
        return False


def _furnished(home: Home, url: str) -> list[str]:
    """A token of each tenant, who has stored something."""
    program = [sys.executable, "-m", "butlers", "token", "new", "--home", str(home.root)]
    tokens = [
        subprocess.run(
            [*program, "--tenant", f"t{number}"], capture_output=True, text=True, check=True
        ).stdout.splitlines()[-1]
        for number in range(TENANTS)
    ]
    time.sleep(2)
    asyncio.run(_fill(url, tokens))
    return tokens


async def _fill(url: str, tokens: Sequence[str]) -> None:
    async with httpx2.AsyncClient(trust_env=False, timeout=120) as http:
        for token in tokens:
            for number in range(FACTS):
                await _ask(http, url, token, number, stores=True)


async def _ask(
    http: httpx2.AsyncClient, url: str, token: str, number: int, *, stores: bool
) -> None:
    where = f"{url}/api/butlers/{BUTLER}/memory"
    headers = {"Authorization": f"Bearer {token}"}
    fact = {"subject": f"person {number}", "predicate": "likes", "content": f"tea no {number}"}
    asked = {"topic": f"what does person {number} like?"}
    path, body = ("/facts", fact) if stores else ("/recall", asked)
    answer = await http.post(f"{where}{path}", json=body, headers=headers)
    # Two of one tenant that store the same may meet.
    assert answer.is_success or answer.status_code == 409, (
        f"{path}: {answer.status_code} {answer.text}"
    )


def _asked(url: str, tokens: Sequence[str], clients: int, seconds: float) -> tuple[float, float]:
    """Answers a second, and how busy the processors were; clients are a process of their own."""
    context = multiprocessing.get_context("spawn")
    answered = context.Value("q", 0)
    crowd = context.Process(target=_go_on, args=(url, list(tokens), clients, answered))
    crowd.start()
    try:
        while answered.value < 2 * clients:  # everything is warm
            assert crowd.is_alive(), "a request failed"
            time.sleep(0.1)
        began, before, (busy, ticks) = time.monotonic(), answered.value, _ticks()
        time.sleep(seconds)
        assert crowd.is_alive(), "a request failed"
        a_second = (answered.value - before) / (time.monotonic() - began)
        busy_then, ticks_then = _ticks()
        return a_second, (busy_then - busy) / (ticks_then - ticks)
    finally:
        crowd.terminate()
        crowd.join()


def _go_on(url: str, tokens: Sequence[str], clients: int, answered: Any) -> None:
    async def client(http: httpx2.AsyncClient, number: int) -> None:
        turn = number
        while True:
            turn += 1
            token = tokens[number % len(tokens)]
            await _ask(http, url, token, turn % FACTS, stores=turn % 4 == 0)
            with answered.get_lock():
                answered.value += 1

    async def all_at_once() -> None:
        limits = httpx2.Limits(max_connections=clients)
        async with httpx2.AsyncClient(trust_env=False, timeout=120, limits=limits) as http:
            await asyncio.gather(*(client(http, number) for number in range(clients)))

    asyncio.run(all_at_once())


def _ticks() -> tuple[int, int]:
    """What all processors did so far, and all they could have done."""
    times = [int(one) for one in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = times[3] + times[4]
    return sum(times) - idle, sum(times)


@contextmanager
def _balanced(haproxy: str, place: Path, ports: Sequence[int]) -> Iterator[str]:
    [text] = re.findall(r"```haproxy\n(.*?)```", _DOCUMENTED.read_text(), re.DOTALL)
    own, *others = ports
    kept = [line for line in text.splitlines() if not line.startswith("    server ")]
    kept = [re.sub(r"^    bind .*", f"    bind 127.0.0.1:{own}", line) for line in kept]
    servers = [f"    server d{port} 127.0.0.1:{port}" for port in others]
    (place / "haproxy.cfg").write_text("\n".join([*kept, *servers, ""]))
    command = [haproxy, "-db", "-f", str(place / "haproxy.cfg")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{own}"
    finally:
        process.terminate()
        process.wait(30)


def _free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports
