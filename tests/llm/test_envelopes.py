"""What the command lines might write: anything. Played by programs that write just that."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from butlers.llm import Completion, CompletionFailed, RuntimeOptions, Usage, language_model

GOOD = {
    "is_error": False,
    "subtype": "success",
    "result": "plain",
    "session_id": "s1",
    "total_cost_usd": 0.25,
    "usage": {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 3},
}
# Writes the first file to standard output and the second to where codex would put its answer.
ACTOR = """#!{python} -I
import pathlib, sys
sys.stdin.buffer.read()
sys.stdout.buffer.write(pathlib.Path({said!r}).read_bytes())
if "--output-last-message" in sys.argv:
    path = pathlib.Path(sys.argv[sys.argv.index("--output-last-message") + 1])
    path.write_bytes(pathlib.Path({answer!r}).read_bytes())
sys.exit({code})
"""


async def played(
    directory: Path, kind: str, said: str | bytes, answer: bytes = b"", code: int = 0
) -> Completion:
    """What becomes of a command line that says this."""
    paths = {"said": directory / "said", "answer": directory / "answer"}
    paths["said"].write_bytes(said if isinstance(said, bytes) else said.encode())
    paths["answer"].write_bytes(answer)
    actor = directory / "actor"
    named = {name: str(path) for name, path in paths.items()}
    actor.write_text(ACTOR.format(python=sys.executable, code=code, **named))
    actor.chmod(0o755)
    model = language_model(RuntimeOptions(kind=kind, command=(str(actor),)))
    assert model is not None
    return await model.complete("a prompt")


def envelope(**changes: Any) -> str:
    return json.dumps({**GOOD, **changes})


async def test_claude_is_understood(tmp_path: Path):
    completion = await played(tmp_path, "claude", envelope())
    assert completion == Completion("plain", Usage(7, 3, 0.25))


async def test_structured_output_of_claude_goes_before_its_words(tmp_path: Path):
    said = envelope(structured_output={"facts": ["\ud800ü"]})
    completion = await played(tmp_path, "claude", said)
    assert json.loads(completion.text) == {"facts": ["\ufffdü"]}


@pytest.mark.parametrize(
    ("changes", "usage"),
    [
        ({"usage": None, "total_cost_usd": None}, Usage()),
        ({"usage": [1], "total_cost_usd": "0.1"}, Usage()),
        ({"usage": {"input_tokens": -1, "output_tokens": True}}, Usage(None, None, 0.25)),
        ({"usage": {"input_tokens": 1e3}, "total_cost_usd": -1}, Usage()),
        ({"usage": {"output_tokens": 10**400}, "total_cost_usd": 10**400}, Usage()),
        ({"session_id": 7}, Usage(7, 3, 0.25)),
    ],
)
async def test_odd_numbers_of_claude_are_not_reported(
    tmp_path: Path, changes: dict[str, Any], usage: Usage
):
    completion = await played(tmp_path, "claude", envelope(**changes))
    assert (completion.text, completion.usage) == ("plain", usage)


DEEP = "[" * 900 + "]" * 900


@pytest.mark.parametrize(
    ("said", "code", "reason"),
    [
        ("", 0, "did not write the JSON expected of it"),
        (b"\xff\xfe\x00", 0, "did not write the JSON expected of it"),
        ("[]", 0, "did not write the JSON expected of it"),
        ("{" * 100_000, 0, "did not write the JSON expected of it"),
        ('{"is_error": NaN}', 0, "did not write the JSON expected of it"),
        ("{}", 0, "claude failed"),
        (envelope(is_error="no"), 0, "claude failed: plain"),
        (envelope(is_error=True, result="Not logged in"), 1, "claude failed: Not logged in"),
        (envelope(is_error=True, result=None, subtype="error_x"), 1, "claude failed: error_x"),
        (envelope(is_error=True, result=[], subtype=3), 2, "claude failed: ended with exit code 2"),
        (envelope(), 1, "claude failed: plain"),
        (envelope(result=""), 0, "claude gave an empty answer"),
        (envelope(result={"a": 1}), 0, "claude gave an empty answer"),
        ("error: unknown option '--bare'", 1, "exit code 1: error: unknown option '--bare'"),
    ],
)
async def test_claude_misunderstood_is_a_failure(
    tmp_path: Path, said: str | bytes, code: int, reason: str
):
    with pytest.raises(CompletionFailed) as failed:
        await played(tmp_path, "claude", said, code=code)
    assert reason in str(failed.value) and "\n" not in str(failed.value)


async def test_a_structure_too_deep_to_write_is_no_crash(tmp_path: Path):
    said = envelope()[:-1] + f', "structured_output": {DEEP}}}'
    try:
        assert (await played(tmp_path, "claude", said)).text == DEEP
    except CompletionFailed as failed:
        assert "claude" in str(failed)


def events(*said: Any) -> str:
    return "\n".join(json.dumps(event) for event in said)


TURN = {"type": "turn.completed", "usage": {"input_tokens": 4, "output_tokens": 2}}


async def test_codex_is_understood_among_noise(tmp_path: Path):
    started = {"type": "thread.started", "thread_id": "t1"}
    said = "noise\n[]\n{\n" + events({"type": 3}, started, {"usage": "x"}, TURN) + "\n\u2028"
    completion = await played(tmp_path, "codex", said, b" the answer\n")
    assert completion == Completion("the answer", Usage(4, 2, None))


@pytest.mark.parametrize(
    ("said", "answer", "code", "reason"),
    [
        ("", b"", 0, "codex gave an empty answer"),
        ("", b"\xff", 0, "the answer of codex is not UTF-8 text"),
        ("", b"x" * (4 * 1024 * 1024 + 1), 0, "codex answered with more than 4 MB"),
        (events({"type": "turn.failed", "error": {"message": "no quota"}}), b"x", 1, "no quota"),
        (events({"type": "turn.failed", "error": "odd"}), b"x", 1, "codex ended with exit code 1"),
        (events({"type": "error", "message": "no network"}), b"", 1, "no network"),
        ("Error: unknown flag", b"", 2, "exit code 2: Error: unknown flag"),
    ],
)
async def test_codex_misunderstood_is_a_failure(
    tmp_path: Path, said: str, answer: bytes, code: int, reason: str
):
    with pytest.raises(CompletionFailed) as failed:
        await played(tmp_path, "codex", said, answer, code)
    assert reason in str(failed.value) and "\n" not in str(failed.value)
