"""The commands as a person types them: what they print, and how they refuse."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from butlers import __version__
from butlers.auth.token_store import TokenStore
from butlers.host.home import Home
from interfaces import daemons
from interfaces.daemons import ENVIRONMENT, PROGRAM, operating, temporary_home

HEAVY = ("mcp", "torch", "onnxruntime", "alembic", "asyncpg", "sqlalchemy", "uvicorn", "structlog")

butlers = partial(daemons.butlers, program=PROGRAM)
"""Started as a person starts it: how long that takes is told here as well."""


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with temporary_home() as home:
        home.create_butler("general")
        home.create_butler("kitchen")
        yield home


def refusal(*arguments: object, code: int = 1) -> str:
    told = butlers(*arguments)
    assert told.returncode == code, told.stderr
    assert told.stdout == ""
    assert "Traceback" not in told.stderr
    if code == 1:
        assert told.stderr.count("\n") == 1
    return told.stderr


def test_help_lists_the_commands() -> None:
    told = butlers("--help")
    assert told.returncode == 0
    for command in ("up", "status", "stop", "open", "logs", "new", "list", "doctor", "db", "token"):
        assert command in told.stdout


def test_help_imports_nothing_heavy_and_is_quick() -> None:
    code = (
        "import sys; sys.argv = ['butlers', '--help']\n"
        "from butlers.interfaces.cli import run_command\n"
        "run_command(sys.argv[1:])\n"
        "print('LOADED', *sys.modules)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in told.stdout.split("LOADED")[1].split()}
    assert not loaded & set(HEAVY)


def test_help_answers_in_a_fifth_of_a_second() -> None:
    def seconds() -> float:
        # Of the processor's time: the machine may be busy with other tests.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        butlers("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(5)) < 0.2


def test_the_version_is_told() -> None:
    for spelling in ("version", "--version"):
        assert butlers(spelling).stdout == f"{__version__}\n"


def test_a_command_that_does_not_exist_is_a_usage_error() -> None:
    assert "No such command" in refusal("fly", code=2)
    assert "No such option" in refusal("up", "--fly", code=2)
    assert "--port" in refusal("up", "--port", "many", code=2)
    assert "Missing argument" in refusal("new", code=2)


def test_a_new_butler_is_written_and_listed(home: Home) -> None:
    told = butlers("new", "garden", "--description", "Plants", "--home", home.root)
    assert told.returncode == 0
    assert str(home.butler_file("garden")) in told.stdout
    assert 'description = "Plants"' in home.butler_file("garden").read_text()
    listed = butlers("list", "--home", home.root)
    assert [line.split("\t")[0] for line in listed.stdout.splitlines()] == home.butler_names()
    as_json = json.loads(butlers("list", "--home", home.root, "--json").stdout)
    assert {"name": "garden", "file": str(home.butler_file("garden"))} in as_json


@pytest.mark.parametrize("name", ["", "Big", "../up", "a" * 41, "health", "1st", "a;b", "é"])
def test_a_name_that_cannot_be_one_is_refused_in_one_line(home: Home, name: str) -> None:
    before = home.butler_names()
    assert "name: found" in refusal("new", name, "--home", home.root)
    assert home.butler_names() == before


def test_a_name_that_is_taken_is_refused(home: Home) -> None:
    assert "already" in refusal("new", "kitchen", "--home", home.root)


def test_a_token_stands_alone_on_the_last_line(home: Home) -> None:
    told = butlers("token", "new", "--butler", "kitchen", "--tenant", "acme", "--home", home.root)
    assert told.returncode == 0
    token = told.stdout.splitlines()[-1]
    record = TokenStore(home.tokens_file).verify(token, "kitchen")
    assert record is not None
    assert record.tenant == "acme"
    assert told.stdout.count(token) == 1


def test_tokens_are_listed_without_themselves_and_revoked_by_id(home: Home) -> None:
    store = TokenStore(home.tokens_file)
    record, token = store.create("general", "acme", "my laptop")
    listed = butlers("token", "list", "--home", home.root).stdout
    assert record.id in listed
    assert "my laptop" in listed
    as_json = butlers("token", "list", "--home", home.root, "--json").stdout
    assert record.id in {entry["id"] for entry in json.loads(as_json)}
    for text in (listed, as_json):
        assert token not in text
        assert record.digest not in text
    told = butlers("token", "revoke", record.id, "--home", home.root, env=operating(home))
    assert told.returncode == 0
    assert store.verify(token, "general") is None
    assert record.id in refusal("token", "revoke", record.id, "--home", home.root)


def test_a_token_for_nobody_or_for_no_tenant_is_refused(home: Home) -> None:
    told = refusal("token", "new", "--butler", "ghost", "--home", home.root)
    assert "there is no butler 'ghost'" in told
    told = refusal("token", "new", "--tenant", "a b", "--home", home.root)
    assert "tenant: found 'a b'" in told


def test_a_home_without_butlers_is_said_to_be_empty(tmp_path: Path) -> None:
    for command in (("list",), ("token", "list"), ("db", "url")):
        assert "start with `butlers up`" in refusal(*command, "--home", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_home_may_come_from_the_environment(home: Home) -> None:
    told = butlers("list", "--json", env=ENVIRONMENT | {"BUTLERS_HOME": str(home.root)})
    assert "kitchen" in told.stdout


def test_a_home_that_is_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert str(tmp_path / "file") in refusal("up", "--home", tmp_path / "file")


def test_the_url_of_a_database_that_is_not_running_is_not_invented(home: Home) -> None:
    assert "start it with `butlers up`" in refusal("db", "url", "kitchen", "--home", home.root)
    assert "there is no butler" in refusal("db", "url", "ghost", "--home", home.root)


def test_the_url_of_an_external_database_names_the_butlers_own(home: Home) -> None:
    file = home.butler_file("kitchen")
    kept = file.read_text()
    file.write_text(
        '[database]\nurl = "postgresql://me:pw@db.example:5433/postgres?sslmode=require"\n'
    )
    try:
        told = butlers("db", "url", "kitchen", "--home", home.root)
    finally:
        file.write_text(kept)
    assert told.stdout.strip() == (
        "postgresql://me:pw@db.example:5433/butler_kitchen?sslmode=require"
    )
