"""`butlers check` over a real home: findings, repair, exit codes, and who else checks."""

import asyncio
import json

import pytest

from butlers.db.embedded.shared_server import EmbeddedPostgres
from db.databases import connected
from interfaces.daemons import butlers, temporary_home
from interfaces.furnished import furnished_home


@pytest.fixture(scope="module")
def home():
    with furnished_home("general") as home:
        home.ensure_general()
        for content in ("tea", "coffee"):
            told = butlers("memory", "store-fact", "Ann", "drinks", content, "--home", home.root)
            assert told.returncode == 0, told.stderr
        yield home


def harmed(home, statement):
    """Change rows behind the back of the product."""

    async def harm(dsn):
        async with connected(dsn) as connection:
            await connection.execute("set session_replication_role = replica")
            await connection.execute(statement)

    with EmbeddedPostgres(home.database_directory) as server:
        asyncio.run(harm(server.dsn("butler_general")))


def checked(home, *options):
    told = butlers("check", *options, "--home", home.root)
    return told.returncode, told.stdout


def test_a_store_that_agrees_says_so(home):
    code, told = checked(home)
    assert code == 0
    assert "general: " in told and "rows checked, all agree" in told
    assert "not checked" not in told


def test_a_wrong_index_is_found_repaired_and_then_agrees(home):
    harmed(home, "delete from index_words")
    code, told = checked(home, "general")
    assert code == 1
    assert "is in the search index with other words than it has: run `butlers check" in told
    code, told = checked(home, "general", "--repair")
    assert code == 0, told
    assert "all agree, after" in told
    assert checked(home, "--deep")[0] == 0
    found = butlers("memory", "recall", "coffee", "--json", "--home", home.root)
    assert json.loads(found.stdout)[0]["content"] == "coffee"


def test_what_no_repair_may_touch_is_named_for_scripts_and_by_doctor(home):
    harmed(home, "update facts set validity = 'expired' where content = 'coffee'")
    try:
        code, told = checked(home, "--json", "--repair")
        report = json.loads(told)["general"]
        assert code == 1
        assert [one["message"].split(" ", 2)[2] for one in report["findings"]] == [
            "is expired; its events make it active"
        ]
        assert report["faulty"] == 1
        assert report["unchecked"] == ""
        doctor = butlers("doctor", "--home", home.root)
        assert doctor.returncode == 1
        assert "is expired; its events make it active" in doctor.stdout
    finally:
        harmed(home, "update facts set validity = 'active' where content = 'coffee'")
        assert checked(home, "--repair")[0] == 0


def test_what_a_backup_brings_along_is_named_after_the_restore(home, tmp_path):
    harmed(home, "update facts set validity = 'expired' where content = 'coffee'")
    file = tmp_path / "home.zip"
    try:
        assert butlers("backup", file, "--home", home.root).returncode == 0
    finally:
        harmed(home, "update facts set validity = 'active' where content = 'coffee'")
    with temporary_home() as other:
        told = butlers("restore", file, "--home", other.root)
        assert told.returncode == 0, told.stderr
        [line] = [line for line in told.stdout.splitlines() if "its events make it active" in line]
        assert line.startswith("general: default: fact ")
        assert "is expired" in butlers("verify", file, "--deep", "--home", other.root).stderr


def test_sequences_behind_their_tables_are_named(home):
    harmed(home, "select setval('memory_events_sequence_seq', 1)")
    code, told = checked(home)
    assert code == 1
    assert "the sequence of memory_events is at 1, behind the table, which is at" in told
    harmed(home, "select setval('memory_events_sequence_seq', 1000)")
    assert checked(home)[0] == 0


def test_an_unknown_butler_is_refused(home):
    told = butlers("check", "kitchen", "--home", home.root)
    assert told.returncode == 1
    assert "there is no butler 'kitchen'" in told.stderr
