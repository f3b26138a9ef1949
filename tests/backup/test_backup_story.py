"""A home that is written to while it is backed up, killed, and brought back elsewhere."""

import itertools
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from butlers.auth.token_store import TokenStore
from butlers.backup.archive import Archive
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.host.home import Home
from butlers.host.status import alone
from db.embedded_servers import fetch
from interfaces.daemons import ENVIRONMENT, Daemon, butlers, operating, temporary_home, until, up

WRITERS = 8


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory for homes and backups; even root's database stays inside its home."""
    with temporary_home() as home:
        yield home.root.parent


@pytest.fixture(scope="module")
def file(place: Path) -> Path:
    return place / "backup.zip"


def empty_home(root: Path) -> Home:
    root.mkdir(0o711)
    return Home(root)


class Writers:
    """Clients that store one fact after the other, and know which were acknowledged."""

    def __init__(self, daemon: Daemon) -> None:
        self.stored: list[str] = []
        self._url = f"{daemon.url}/api/butlers/general/memory/facts"
        self._token = TokenStore(daemon.home.tokens_file).create("general", "default")[1]
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(n,)) for n in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def _write(self, number: int) -> None:
        headers = {"Authorization": f"Bearer {self._token}"}
        with httpx2.Client(trust_env=False, timeout=20, headers=headers) as client:
            for turn in itertools.count():
                fact = {"subject": f"writer {number}", "predicate": f"turn {turn}"}
                try:
                    answer = client.post(self._url, json={**fact, "content": "came in between"})
                except httpx2.HTTPError:
                    return
                if self._stop.is_set() or not answer.is_success:
                    return
                self.stored.append(answer.json()["id"])

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def backing_up(home: Home, file: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "butlers", "backup", str(file), "--home", str(home.root)]
    return subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL, text=True)


async def ids(home: Home) -> set[str]:
    """Every fact of a home that nobody serves."""
    with EmbeddedPostgres(home.database_directory) as server:
        told = await fetch(server.dsn("butler_general"), "select array_agg(id::text) from facts")
    assert isinstance(told, list)
    return set(told)


@pytest.mark.slow
async def test_every_write_acknowledged_before_a_backup_is_in_it(place: Path, file: Path) -> None:
    home = Home(place / "home")
    with up(home) as daemon:
        writers = Writers(daemon)
        try:
            until(lambda: len(writers.stored) > 2 * WRITERS)
            with backing_up(home, file) as killed:
                until(lambda: list(place.glob(".butlers-backup-*")))
                killed.kill()
            assert not file.exists()
            before = list(writers.stored)
            assert butlers("backup", file, "--home", home.root).returncode == 0
            assert list(place.glob(".butlers-backup-*")) == []
            daemon.kill()  # in the middle of writing
        finally:
            writers.end()
        after = list(writers.stored)
    assert len(after) > len(before)
    other = empty_home(place / "elsewhere")
    restored = butlers("restore", file, "--home", other.root, "--json")
    assert restored.returncode == 0, restored.stderr
    with Archive(file) as archive:
        stored = archive.manifest.databases["general"].counts["public.facts"]
    found = await ids(other)
    assert set(before) <= found
    assert len(found) == stored <= len(after) + WRITERS
    asked = ("memory", "recall", "what came in between?", "--json", "--home", other.root)
    assert {one["id"] for one in json.loads(butlers(*asked).stdout)} & set(before)


@pytest.mark.slow
def test_a_restore_that_is_killed_says_so_and_is_done_again(place: Path, file: Path) -> None:
    home = empty_home(place / "again")
    command = [sys.executable, "-m", "butlers", "restore", str(file), "--home", str(home.root)]
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as restoring:
        until(lambda: (home.restoring_directory / "postgres" / "data").exists(), 60)
        restoring.send_signal(signal.SIGSTOP)
        second = butlers("restore", file, "--home", home.root)
        assert "another process is restoring" in second.stderr
        restoring.kill()
    refused = butlers("up", "--home", home.root, "--port", 0)
    assert refused.returncode == 1
    assert "is half restored; run `butlers restore FILE` again" in refused.stderr
    assert "half restored" in butlers("doctor", "--home", home.root).stdout
    done = butlers("restore", file, "--home", home.root)
    assert done.returncode == 0, done.stderr
    assert "every row counted" in done.stdout
    assert not home.restoring_directory.exists()


@pytest.mark.slow
def test_a_butler_is_removed_with_all_it_has_and_the_others_stay(place: Path) -> None:
    home = Home(place / "again")
    home.create_butler("kitchen")
    there = ("--butler", "kitchen", "--home", home.root)
    kept = ("memory", "store-fact", "Ann", "allergy", "peanuts")
    assert butlers(*kept, *there).returncode == 0
    TokenStore(home.tokens_file).create("kitchen", "default")
    spool = home.root / "spool"
    spool.mkdir(exist_ok=True)
    (spool / "kitchen~s1~ab.json").write_text('{"held": ""}')
    with alone(home):
        served = butlers("remove", "kitchen", "--yes", "--home", home.root)
        assert "is already running" in served.stderr
    asked = butlers("remove", "kitchen", "--home", home.root, input="n\n")
    assert asked.returncode == 1
    assert "1 facts" in asked.stdout
    assert home.butler_names() == ["general", "kitchen"]
    remove = ("remove", "kitchen", "--yes", "--home", home.root)
    alone_here = butlers(*remove)
    assert alone_here.returncode == 1 and "only a person may remove" in alone_here.stderr
    assert home.butler_names() == ["general", "kitchen"]
    done = butlers(*remove, env=operating(home, "kitchen"))
    assert done.returncode == 0, done.stderr
    assert home.butler_names() == ["general"]
    assert {one.butler for one in TokenStore(home.tokens_file).all()} == {"general"}
    assert not list(spool.glob("kitchen~*"))
    (backup,) = (home.root / "backups").glob("butlers-*.zip")
    with Archive(backup) as archive:
        assert set(archive.manifest.databases) == {"general", "kitchen"}
    later = butlers("backup", place / "later.zip", "--home", home.root, "--json")
    assert set(json.loads(later.stdout)["rows"]) == {"general"}
