"""Many butlers of one home: started side by side, and on few connections together."""

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest
from structlog.testing import capture_logs

from butlers.host import hosting
from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from butlers.interfaces.daemon import started_butlers
from butlers.settings.files import load_house
from interfaces.furnished import furnished_home

COUNT, CONNECTIONS = 12, 9
NAMES = [f"butler_{number:02}" for number in range(COUNT)]
OPEN = "select count(*) from pg_stat_activity where application_name = 'butlers'"


@pytest.fixture
def home() -> Iterator[Home]:
    """A home of many butlers on few connections; one of them names a server that is not there."""
    with furnished_home("general") as home:
        home.settings_file.write_text(f"[database]\nconnections = {CONNECTIONS}\n")
        for name in NAMES:
            home.create_butler(name)
        nowhere = '[database]\nurl = "postgresql://127.0.0.1:1/nothing"\n'
        home.butler_file(NAMES[0]).write_text(nowhere)
        yield home


async def test_many_start_side_by_side_and_one_that_cannot_keeps_no_other(
    home: Home, migrated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "_PROGRESS_SECONDS", 0.1)
    house = load_house(home.settings_file, home.butler_files())
    with capture_logs() as said:
        async with started_butlers(home, house) as butlers:
            assert list(butlers) == NAMES
            assert [name for name in NAMES if not butlers[name].is_open] == NAMES[:1]
            assert migrated == ["butlers_template"]
            url = DatabaseServer(home).running_url(NAMES[1])
            await asyncio.gather(*(_asked(butlers[name]) for name in NAMES[1:] * 3), _seen(url))
    assert [line["butler"] for line in said if "failed" in line["event"]] == NAMES[:1]
    told = [line["event"] for line in said if line["event"].endswith("butlers are up")]
    assert told
    assert told == sorted(told, key=lambda line: int(line.split()[0]))


async def _asked(butler: hosting.Butler) -> None:
    assert all(health.ok for health in (await butler.health()).values())
    await butler.clock_watch.look()


async def _seen(url: str) -> None:
    """However many ask, no more connections than are shared."""
    connection = await asyncpg.connect(url)
    for _ in range(20):
        assert await connection.fetchval(OPEN) <= CONNECTIONS
        await asyncio.sleep(0.01)
    await connection.close()
