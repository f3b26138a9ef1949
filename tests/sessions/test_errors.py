"""The same error has the same signature in another run; another error of the tool has not."""

import json
import re
from pathlib import Path

import pytest

from butlers.sessions.error_match import likeness, most_alike
from butlers.sessions.error_signature import error_lines, error_signature

STORES = Path(__file__).parents[2] / "bench" / "stores" / "failures"
PAIRS = [json.loads(line) for line in (STORES / "pairs.jsonl").read_text().splitlines()]
DEV = [pair for pair in PAIRS if pair["half"] == "dev"]


def test_what_differs_from_run_to_run_is_replaced() -> None:
    one = "\x1b[31mError\x1b[0m: timeout after 31.5s at /home/ann/a.py:12 (id 5f1d9e0c2a41)"
    other = "Error: timeout after 7s at /srv/x/b.py:99 (id aa01b2c3d4e5)"
    assert error_signature(one) == error_signature(other) != ""


def test_the_subject_of_a_commit_tells_nothing() -> None:
    one, other = "error: could not apply 3fa2b11... add", "error: could not apply 99ab0cd... drop"
    assert error_signature(one) == error_signature(other) == "error: could not apply <id>"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ModuleNotFoundError: No module named 'a'", "ModuleNotFoundError: No module named 'b'"),
        ("Bind for 0.0.0.0:5432 failed: port taken", "Bind for 0.0.0.0:8080 failed: port taken"),
        ("error TS7016: Could not find it", "error TS2322: Could not find it"),
        ("fatal error: a/ssl.h: No such file", "fatal error: uv.h: No such file"),
    ],
)
def test_what_tells_errors_apart_stays(one: str, other: str) -> None:
    assert error_signature(one) != error_signature(other)
    assert likeness(error_signature(one), "make", error_signature(other), "make") == 0.0


@pytest.mark.parametrize("output", ["", "Exit code 1", "E   AssertionError", "2 failed in 0.1s"])
def test_an_output_that_says_only_that_something_failed_has_none(output: str) -> None:
    assert error_signature(output) == ""


def test_a_traceback_is_known_by_its_end() -> None:
    output = 'Traceback (most recent call last):\n  File "a.py"\nFirstError: x\nKeyError: name'
    assert error_lines(output) == ["KeyError: name"]


def test_errors_of_two_programs_are_one_only_if_they_say_the_same() -> None:
    one, other = "error: cannot reach the registry now", "error: cannot reach the registry"
    assert likeness(one, "npm ci", other, "npm install") > 0.6
    assert likeness(one, "npm ci", other, "cargo build") == 0.0
    assert likeness(one, "npm ci", one, "cargo build") == 1.0
    assert likeness("", "npm ci", "", "npm ci") == 0.0
    assert likeness(one, "npm ci", one.replace("registry", "proxy"), "npm ci") == 0.0


def test_what_the_command_itself_names_tells_no_errors_apart() -> None:
    one, other = (f'the deployment "{name}" is invalid: immutable' for name in ("api", "jobs"))
    assert likeness(one, "kubectl apply -f api.yaml", other, "kubectl apply -f jobs.yaml") > 0.6
    assert likeness(one, "kubectl apply -f x.yaml", other, "kubectl apply -f x.yaml") == 0.0
    # What is to be installed does.
    assert likeness(one, "helm install api", other, "helm install jobs") == 0.0


def test_a_long_sentence_that_is_the_same_is_enough() -> None:
    long = "you can only install packages when the manifest and the lock file agree again"
    assert likeness(f"{long} | missing: zod", "npm ci", f"{long} | missing: vue", "npm ci") > 0.6
    assert likeness("a b c d | x", "npm ci", "a b c d | y", "npm ci") == 0.0


def test_the_first_of_equal_failures_is_taken() -> None:
    rows = [{"error": "cannot x y z", "command": "make", "fix": fix} for fix in ("new", "old")]
    found = most_alike(rows, "cannot x y z", "make")
    assert found and found["fix"] == "new"
    assert most_alike([], "cannot x y z", "make") is None


@pytest.mark.parametrize("pair", DEV, ids=lambda pair: pair["id"])
def test_an_error_is_recognised_and_its_look_alike_is_not(pair: dict[str, dict[str, str]]) -> None:
    seen = pair["seen"]
    rows = [{"error": error_signature(seen["output"]), "command": seen["command"]}]
    later, look_alike = (
        most_alike(rows, error_signature(pair[kind]["output"]), pair[kind]["command"])
        for kind in ("later", "look_alike")
    )
    assert (later, look_alike) == (rows[0], None)


def test_a_long_output_is_read_quickly() -> None:
    output = "x" * 100_000 + "\n" + "error: a b c\n" * 5_000
    assert re.fullmatch("error: a b c", error_signature(output))
