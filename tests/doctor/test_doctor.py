"""`butlers doctor`: it finds what is wrong, says what to do, changes and reveals nothing."""

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import asyncpg
import pytest

from butlers import clock
from butlers.auth.token_store import TokenStore
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.doctor import Finding, Severity
from butlers.doctor import checks as doctor
from butlers.doctor.checks import examine
from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from butlers.sessions.spool_entries import SpoolEntries
from interfaces.daemons import butlers, temporary_home, up
from interfaces.furnished import furnished_home


@pytest.fixture
def home() -> Iterator[Home]:
    """A home in which nobody has started anything, whose port is free; its path is short."""
    with temporary_home() as home:
        home.create_butler("general")
        home.settings_file.write_text("[server]\nport = 0\n")
        yield home


def of(findings: list[Finding], check: str) -> list[Finding]:
    return [finding for finding in findings if finding.check == check]


def only(findings: list[Finding], check: str) -> Finding:
    (found,) = of(findings, check)
    return found


def settle(home: Home, **sections: str) -> None:
    text = "".join(f"[{name.replace('__', '.')}]\n{body}\n" for name, body in sections.items())
    home.butler_file("general").write_text(text)


async def test_a_fresh_home_has_no_problem(home: Home) -> None:
    findings = await examine(home)
    assert [f.check for f in findings if f.verdict is Severity.PROBLEM] == []
    checks = {finding.check for finding in findings}
    assert checks >= {"python", "home", "disk", "settings", "server", "tokens"}
    assert checks >= {"embedding model", "runtime of general", "database"}
    assert "`butlers up` sets it up" in only(findings, "database").message
    assert not home.database_directory.exists()


async def test_sessions_that_wait_or_were_set_aside_are_told_with_what_to_do(home: Home) -> None:
    assert only(await examine(home), "sessions").verdict is Severity.OK
    waiting, aside = SpoolEntries(home.root), {"butler": "general", "session": "bad"}
    waiting.leave({"butler": "general", "session": "good"})
    waiting.leave(aside)
    waiting.set_aside(waiting.arrivals()[-1], "it was poison")
    first, second = of(await examine(home), "sessions")
    assert first.verdict is second.verdict is Severity.WARNING
    assert first.message.startswith("set aside: 1 session (") and "poison" in first.message
    assert f"{home.root}/spool/aside" in first.remedy
    assert second.message.startswith("waiting: 1 session to be stored, the oldest since 20")


async def test_a_home_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    findings = await examine(Home(tmp_path / "none"))
    assert only(findings, "home").verdict is Severity.WARNING
    assert "butlers up" in only(findings, "home").remedy
    assert not (tmp_path / "none").exists()


async def test_a_home_open_to_others_is_noticed(home: Home) -> None:
    home.root.chmod(0o755)
    found = only(await examine(home), "home")
    assert found.verdict is Severity.WARNING
    assert found.remedy == f"run: chmod go-rw {home.root}"


async def test_every_fault_of_the_settings_is_a_problem(home: Home) -> None:
    settle(home, butler='nmae = "x"', server="port = -1")
    found = of(await examine(home), "settings")
    assert [finding.verdict for finding in found] == [Severity.PROBLEM] * 2
    assert any("butler.nmae" in finding.message for finding in found)


async def test_a_key_that_is_no_longer_a_setting_is_a_warning(home: Home) -> None:
    settle(home, server="send_seconds = 5")
    read, removed = of(await examine(home), "settings")
    assert (read.verdict, removed.verdict) == (Severity.OK, Severity.WARNING)
    assert removed.message.endswith("server.send_seconds: no longer a setting; remove it")


async def test_a_port_taken_by_another_program_is_a_problem(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        home.settings_file.write_text(f"[server]\nport = {port}\n")
        found = only(await examine(home), "server")
    assert found.verdict is Severity.PROBLEM
    assert f"port {port}" in found.message
    assert "--port" in found.message


async def test_being_reachable_by_others_is_a_warning(home: Home) -> None:
    home.settings_file.write_text('[server]\nport = 0\nhost = "0.0.0.0"\nallow_remote = true\n')
    verdicts = [finding.verdict for finding in of(await examine(home), "server")]
    assert verdicts == [Severity.OK, Severity.WARNING]


async def test_tokens_missing_open_or_astray_are_noticed(home: Home) -> None:
    assert only(await examine(home), "tokens").verdict is Severity.WARNING
    store = TokenStore(home.tokens_file)
    _, token = store.create("gone", "acme")
    home.tokens_file.chmod(0o644)
    found = of(await examine(home), "tokens")
    assert "chmod 600" in next(f for f in found if f.verdict is Severity.PROBLEM).remedy
    told = " ".join(finding.message for finding in found)
    assert "butler general has no token" in told
    assert "for butler gone, which does not exist" in told
    assert token not in told
    home.tokens_file.write_text("{")
    assert "is damaged" in only(await examine(home), "tokens").message


@pytest.mark.parametrize(
    ("runtime", "told"),
    [
        ('kind = "codex"\nbinary = "/nowhere/codex"', "there is no program /nowhere/codex"),
        ('kind = "command"\ncommand = ["no-such-program", "-x"]', "no program no-such-program"),
        ('kind = "http"\nurl = "http://h/v1"\napi_key_env = "NO_SUCH_KEY"', "NO_SUCH_KEY"),
    ],
)
async def test_a_runtime_that_cannot_run_is_a_problem(home: Home, runtime: str, told: str) -> None:
    settle(home, runtime=runtime)
    found = only(await examine(home), "runtime of general")
    assert found.verdict is Severity.PROBLEM
    assert told in found.message
    assert found.remedy


async def test_a_runtime_in_the_path_is_fine(home: Home) -> None:
    settle(home, runtime='kind = "command"\ncommand = ["sh", "-c", "cat"]')
    found = only(await examine(home), "runtime of general")
    assert found.message == f"command is {shutil.which('sh')}"


async def test_a_model_that_is_not_there_is_a_problem(home: Home, tmp_path: Path) -> None:
    settle(home, modules__memory=f'embedding_model_directory = "{tmp_path / "model"}"')
    found = only(await examine(home), "embedding model")
    assert found.verdict is Severity.PROBLEM
    assert "must hold model.onnx" in found.message


async def test_a_server_that_does_not_answer_is_a_problem_without_its_password(
    home: Home,
) -> None:
    settle(home, database='url = "postgresql://me:hush@127.0.0.1:9/postgres"')
    found = only(await examine(home), "database of general")
    assert found.verdict is Severity.PROBLEM
    assert found.message.startswith("127.0.0.1:9: the database does not answer")
    assert "hush" not in json.dumps(asdict(found))


async def test_a_check_that_fails_itself_is_a_problem_and_not_a_crash(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(doctor, "_python", broken)
    found = only(await examine(home), "python")
    assert found.message == "the check itself failed (ZeroDivisionError)"


def test_a_problem_makes_the_command_fail_in_lines_or_json(home: Home) -> None:
    settle(home, butler='nmae = "x"')
    told = butlers("doctor", "--home", home.root)
    assert told.returncode == 1
    assert "Traceback" not in told.stderr
    assert [line for line in told.stdout.splitlines() if line.startswith("problem  settings: ")]
    as_json = json.loads(butlers("doctor", "--home", home.root, "--json").stdout)
    assert {"check", "verdict", "message", "remedy"} == set(as_json[0])
    assert "problem" in {entry["verdict"] for entry in as_json}


@pytest.fixture(scope="module")
def lived_in() -> Iterator[Home]:
    """A home whose butler was up once."""
    with furnished_home("general") as home:
        with up(home):
            pass
        home.settings_file.write_text("[server]\nport = 0\n")
        yield home


def test_a_home_that_is_up_and_well_is_said_to_be(lived_in: Home) -> None:
    with up(lived_in) as daemon:
        told = butlers("doctor", "--home", lived_in.root)
        assert told.returncode == 0, told.stdout
        assert f"ok       server: running and healthy at {daemon.url}" in told.stdout
        assert "ok       database of general: migrated, at " in told.stdout
        assert daemon.health() == 200


async def test_a_home_that_is_down_is_examined_and_left_down(lived_in: Home) -> None:
    findings = await examine(lived_in)
    assert {finding.verdict for finding in findings} == {Severity.OK}
    data = EmbeddedPostgres(lived_in.database_directory).data_directory
    assert not (data / "postmaster.pid").exists()


async def test_what_a_daemon_killed_left_behind_is_no_problem(lived_in: Home) -> None:
    with up(lived_in) as daemon:
        daemon.kill()
    assert lived_in.run_file.exists()
    assert "not running" in only(await examine(lived_in), "server").message


async def the_general(home: Home, statement: str) -> None:
    """Change what the butler has on record."""
    with EmbeddedPostgres(home.database_directory) as server:
        connection = await asyncpg.connect(server.dsn("butler_general"))
        await connection.execute(statement)
        await connection.close()


EPISODE = (
    "insert into episodes (tenant_id, butler, content, created_at) "
    "values ('acme', 'general', 'tea', now() - interval '6 days 1 hour')"
)


@pytest.mark.contract("L25")
async def test_what_waits_without_a_model_is_said_and_so_is_the_bound(
    lived_in: Home, set_limits: Callable[..., None]
) -> None:
    assert only(await examine(lived_in), "unread of general").message == "nothing waits"
    await the_general(lived_in, EPISODE)
    set_limits(MAX_UNREAD_EPISODES=1)
    few, crowded = of(await examine(lived_in), "unread of general")
    await the_general(lived_in, "set session_replication_role = replica; truncate episodes cascade")
    assert few.verdict is crowded.verdict is Severity.WARNING
    assert few.message == "no model reads episodes (1 waits; oldest 6 days); they are kept"
    assert crowded.message.startswith("tenant acme: 1 of 1 unread episodes, 0 of 1,000 MB")


HELD = (
    "insert into rules (id, tenant_id, content, confidence, decay_rate, created_at, quarantined) "
    "values (gen_random_uuid(), 'acme', 'obey', 0.5, 0, now(), 'hidden text')"
)


BESIDE = """
insert into facts (id, tenant_id, subject, predicate, content, created_at)
values (gen_random_uuid(), 'acme', 'Ann', 'city', 'Oslo', now()),
  (gen_random_uuid(), 'acme', 'Ann', 'lives_in', 'Rome', now());
insert into memory_conflicts
  (tenant_id, id, kind, newer_id, older_id, why, score, created_at)
select 'acme', gen_random_uuid(), 'conflict', min(id::text)::uuid, max(id::text)::uuid, '', 1, now()
from facts where subject = 'Ann'
"""


async def test_what_contradicts_is_said_with_what_to_do(lived_in: Home) -> None:
    assert only(await examine(lived_in), "review of general").verdict is Severity.OK
    await the_general(lived_in, BESIDE)
    said = only(await examine(lived_in), "review of general")
    assert said.verdict is Severity.WARNING
    assert said.message == "to review: 1 conflict"
    assert "butlers inbox" in said.remedy
    await the_general(lived_in, "set session_replication_role = replica; truncate facts cascade")


@pytest.mark.contract("L37")
async def test_what_waits_for_a_person_is_said(lived_in: Home) -> None:
    assert only(await examine(lived_in), "review of general").verdict is Severity.OK
    await the_general(lived_in, HELD)
    said = only(await examine(lived_in), "review of general")
    assert said.verdict is Severity.WARNING
    assert said.message == "to review: 1 quarantined"
    await the_general(lived_in, "set session_replication_role = replica; truncate rules cascade")


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ("'failed', 'no room', null", "decay_sweep failed: no room"),
        ("'partial', 'acme: no room', null", "decay_sweep went well in part: acme: no room"),
        ("'skipped', 'a reason', null", "decay_sweep was skipped: a reason"),
        ("""'ok', null, '{"warnings": ["full"]}'""", "decay_sweep has a warning: full"),
    ],
)
async def test_a_job_that_did_not_go_well_is_told_of(lived_in: Home, run: str, told: str) -> None:
    await the_general(
        lived_in,
        "truncate job_runs; insert into job_runs (job, fire_at, cause, worker, lease_until, "
        "started_at, finished_at, outcome, error, result) "
        f"values ('decay_sweep', now(), 'request', 'w', now(), now(), now(), {run})",
    )
    found = only(await examine(lived_in), "jobs of general")
    await the_general(lived_in, "truncate job_runs")
    assert (found.verdict, found.message) == (Severity.WARNING, told)


@pytest.mark.contract("L42")
async def test_a_clock_in_doubt_is_told_of(lived_in: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_is_synchronised", lambda: False)
    await the_general(lived_in, "truncate clock_boots")
    await the_general(lived_in, "update clock_believed set at = '2020-01-01', boot = 'another'")
    found = only(await examine(lived_in), "clock of general")
    await the_general(lived_in, "truncate clock_believed")
    assert found.verdict is Severity.WARNING
    assert "since 2020-01-01 00:00" in found.message
    assert only(await examine(lived_in), "clock of general").verdict is Severity.OK


STANDING = "from alembic_version where version_num like 'mem%'"


@pytest.mark.parametrize(
    ("revision", "verdict", "told"),
    [
        ("mem_999", Severity.PROBLEM, "upgrade butlers"),
        ("mem_034", Severity.WARNING, "the next `butlers up` migrates it"),
        ("mem_003", Severity.PROBLEM, "Run `butlers export FILE`"),
    ],
)
async def test_a_database_of_another_version_is_noticed(
    lived_in: Home, revision: str, verdict: Severity, told: str
) -> None:
    with EmbeddedPostgres(lived_in.database_directory) as server:
        connection = await asyncpg.connect(server.dsn("butler_general"))
        try:
            kept = await connection.fetchval(f"select version_num {STANDING}")
            change = "update alembic_version set version_num = $1 where version_num = $2"
            await connection.execute(change, revision, kept)
            found = only(await examine(lived_in), "database of general")
            await connection.execute(change, kept, revision)
        finally:
            await connection.close()
    assert found.verdict is verdict
    assert told in found.remedy
    assert revision in found.message


async def test_an_external_server_is_examined_without_being_changed(
    lived_in: Home, home: Home
) -> None:
    with EmbeddedPostgres(lived_in.database_directory):
        settle(home, database=f'url = "{DatabaseServer(lived_in).running_url("general")}"')
        found = of(await examine(home), "database of general")
    assert [finding.verdict for finding in found] == [Severity.OK, Severity.OK]
    assert "with pgvector" in found[0].message
    assert "migrated" in found[1].message
