"""Backups of a butler whose database is on a server of one's own."""

import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from butlers.backup.create import make
from butlers.backup.directory import GRACE, kept_elsewhere
from butlers.backup.restore_home import restore, verify
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.errors import Conflict, Unavailable
from butlers.host.home import Home
from butlers.host.hosting import opened_butler
from db.databases import connected, fresh_role

FACT = "insert into facts (tenant_id, subject, predicate, content) values ('a', 'Ann', 'tea', 'x')"


@pytest.fixture
async def butler(postgres: EmbeddedPostgres, template: str) -> AsyncIterator[str]:
    """A butler whose database on that server has a fact."""
    name = f"b{uuid.uuid4().hex[:12]}"
    async with connected(postgres.dsn()) as superuser:
        await superuser.execute(f"create database butler_{name} template {template}")
        async with connected(postgres.dsn(f"butler_{name}")) as owner:
            await owner.execute(FACT)
        yield name
        await superuser.execute(f"drop database butler_{name}")


def home_with(root: Path, butler: str, url: str) -> Home:
    home = Home(root)
    home.create_butler(butler)
    home.settings_file.write_text(f'[database]\nurl = "{url}"\n')
    return home


async def test_it_is_backed_up_from_there_and_restored_to_an_empty_database_there(
    postgres: EmbeddedPostgres, butler: str, tmp_path: Path
) -> None:
    home, other = home_with(tmp_path / "home", butler, postgres.dsn()), Home(tmp_path / "other")
    made = await make(home, tmp_path / "one.zip")
    assert made.manifest.databases[butler].is_external
    assert made.manifest.databases[butler].counts["public.facts"] == 1
    with pytest.raises(Conflict, match="is not empty; drop it there"):
        await restore(made.file, other)
    assert not other.root.exists()
    async with connected(postgres.dsn()) as superuser:
        await superuser.execute(f"drop database butler_{butler}")
    await restore(made.file, other)
    async with connected(postgres.dsn(f"butler_{butler}")) as owner:
        assert await owner.fetchval("select content from facts") == "x"
        await owner.execute("update facts set content = 'y'")  # its triggers are there
    assert not (other.root / "postgres").exists()


async def test_a_login_that_may_not_read_every_tenant_is_told_what_it_needs(
    postgres: EmbeddedPostgres, butler: str, tmp_path: Path
) -> None:
    async with fresh_role(postgres, "") as login:
        async with connected(postgres.dsn(f"butler_{butler}")) as superuser:
            await superuser.execute(f"grant select on all tables in schema public to {login}")
        home = home_with(tmp_path / "home", butler, postgres.dsn(user=login))
        with pytest.raises(Unavailable, match="BYPASSRLS"):
            await make(home, tmp_path / "one.zip")
        async with connected(postgres.dsn(f"butler_{butler}")) as superuser:
            await superuser.execute(f"drop owned by {login}")
    assert list(tmp_path.iterdir()) == [home.root]


async def test_a_deep_look_needs_no_server_but_its_own(
    postgres: EmbeddedPostgres, butler: str, tmp_path: Path
) -> None:
    made = await make(home_with(tmp_path / "home", butler, postgres.dsn()), tmp_path / "one.zip")
    assert (await verify(made.file, deep=True)).databases[butler].rows >= 1


async def test_of_homes_that_serve_one_database_one_keeps_it_and_another_once_that_is_late(
    postgres: EmbeddedPostgres, butler: str, tmp_path: Path
) -> None:
    homes = [home_with(tmp_path / name, butler, postgres.dsn()) for name in ("one", "two")]
    tick, minute = datetime(2030, 1, 1, 3, tzinfo=UTC), timedelta(minutes=1)
    async with opened_butler(homes[0], butler) as first, opened_butler(homes[1], butler) as second:

        async def one(at: datetime, now: datetime) -> dict[str, str] | None:
            return await kept_elsewhere(homes[0], {butler: first}, at, now)

        async def two(at: datetime, now: datetime) -> dict[str, str] | None:
            return await kept_elsewhere(homes[1], {butler: second}, at, now)

        assert await one(tick, tick) == {}
        assert await one(tick, tick + minute) == {}  # again, where it could not be made
        left = await two(tick, tick + minute)
        assert left is not None and left[butler].endswith(str(homes[0].root))
        tomorrow = tick + timedelta(days=1)
        assert await two(tomorrow, tomorrow) is None
        assert await two(tomorrow, tomorrow + GRACE) == {}
        late = await one(tomorrow, tomorrow + GRACE)
        assert late is not None and late[butler].endswith(str(homes[1].root))
    made = await make(homes[0], tmp_path / "one.zip", elsewhere=late)
    assert made.manifest.databases == {}
    assert made.manifest.left_out == (f"the database of {butler}: {late[butler]} keeps it",)
