"""The command runtime over real processes: what goes in, what comes out, what is left behind."""

import json
import os
import sys
from pathlib import Path

import pytest

from butlers.errors import InvalidInput, Unavailable
from butlers.llm import CompletionFailed, NotReached, RuntimeOptions, Usage, language_model
from llm.models import chosen, failure, python

SCHEMA = {
    "type": "object",
    "properties": {"facts": {"type": "array", "items": {"type": "string"}}},
    "required": ["facts"],
}
ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"


def test_no_runtime_is_no_model():
    assert language_model(RuntimeOptions()) is None


def test_an_unknown_kind_is_refused():
    with pytest.raises(InvalidInput, match="runtime.kind is 'oracle'"):
        language_model(RuntimeOptions(kind="oracle"))


@pytest.mark.parametrize(
    "prompt",
    [
        "Say hello.",
        'Grüße, 世界 🐙\r\n\ttabs\x00 and \\ "quotes" {model}',
        "long ünd 長い\n" * 60_000,
    ],
    ids=["plain", "unicode", "megabyte"],
)
async def test_the_prompt_arrives_byte_for_byte_on_standard_input(prompt: str):
    code = "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    import hashlib

    completion = await python(code).complete(prompt)
    assert completion.text == hashlib.sha256(prompt.encode()).hexdigest()
    assert completion.usage == Usage(None, None, None)


async def test_the_prompt_is_in_no_argument():
    completion = await python("import sys; print(sys.argv[1:])", "fixed").complete("confidential")
    assert completion.text == "['fixed']"


async def test_a_lone_surrogate_in_the_prompt_is_replaced():
    assert (await python(ECHO).complete("a\ud800b")).text == "a\ufffdb"


async def test_the_directory_is_empty_private_and_removed(scratch: Path):
    code = (
        "import os, json; here = os.getcwd(); open('left', 'w').close(); "
        "print(json.dumps([here, os.listdir() == ['left'], os.stat(here + '/..').st_mode & 0o77]))"
    )
    directory, was_empty, others_may = json.loads((await python(code).complete("x")).text)
    assert (was_empty, others_may) == (True, 0)
    assert Path(directory).is_relative_to(scratch)
    assert list(scratch.iterdir()) == []


async def test_the_environment_holds_little(monkeypatch: pytest.MonkeyPatch):
    for name in ("MY_KEY", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "BUTLER_TOKEN"):
        monkeypatch.setenv(name, f"value of {name}")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test:3128")
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    model = python(code, api_key_env="MY_KEY")
    seen = json.loads((await model.complete("x", label="schedule:consolidation")).text)
    assert seen["MY_KEY"] == "value of MY_KEY"
    assert seen["BUTLERS_TRIGGER"] == "schedule:consolidation"
    assert (seen["PATH"], seen["HOME"]) == (os.environ["PATH"], os.environ["HOME"])
    assert (seen["TERM"], seen["HTTPS_PROXY"]) == ("dumb", "http://proxy.test:3128")
    assert not {"AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "BUTLER_TOKEN"} & set(seen)
    # The interpreter adds LC_CTYPE by itself.
    added = {"MY_KEY", "BUTLERS_TRIGGER", "TERM", "TMPDIR", "LC_CTYPE"}
    assert {name for name in seen if name not in os.environ} <= added


async def test_a_named_key_that_is_not_set_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    reason = await failure(python(ECHO, api_key_env="MY_KEY"))
    assert "MY_KEY, which runtime.api_key_env names, is not set" in reason


async def test_placeholders_name_model_schema_system_and_output():
    code = (
        "import sys, json; model, schema, system, output = sys.argv[1:]; "
        "open(output, 'w').write(json.dumps([model, json.load(open(schema)), "
        "open(system).read(), sys.stdin.read()])); print('noise')"
    )
    model = python(
        code, "--m={model}", "{schema_file}", "{system_file}", "{output_file}", model="tiny"
    )
    completion = await model.complete("the prompt", system="be brief", schema=SCHEMA)
    assert json.loads(completion.text) == ["--m=tiny", SCHEMA, "be brief", "the prompt"]


async def test_without_placeholders_system_and_schema_surround_the_prompt():
    text = (await python(ECHO).complete("the prompt", system="be brief", schema=SCHEMA)).text
    system, prompt, instruction = text.split("\n\n")
    assert (system, prompt) == ("be brief", "the prompt")
    assert json.dumps(SCHEMA) in instruction


async def test_other_braces_in_the_command_stay():
    completion = await python("import sys; print(sys.argv[1])", '{"a": {}}').complete("x")
    assert completion.text == '{"a": {}}'


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise SystemExit(3)", "the command ended with exit code 3: no output"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by signal 9"),
        ("import sys; sys.exit('no such model')", "exit code 1: no such model"),
        ("print('  ')", "the command gave an empty answer"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\xfe')", "is not UTF-8 text"),
    ],
    ids=["code", "signal", "words", "empty", "not UTF-8"],
)
async def test_failures_say_why(code: str, reason: str):
    assert reason in await failure(python(code))


async def test_an_output_file_that_is_never_written_is_an_empty_answer():
    assert "empty answer" in await failure(python("print('hi')", "{output_file}"))


async def test_a_pipe_as_output_file_keeps_nobody_waiting():
    code = "import os, sys; os.mkfifo(sys.argv[1])"
    assert "empty answer" in await failure(python(code, "{output_file}"))


async def test_a_missing_program_is_reported_with_what_to_do():
    reason = await failure(chosen(kind="command", command=("no-such-program-here",)))
    assert "'no-such-program-here' was not found: install it or set runtime.command" in reason


@pytest.mark.parametrize("kind", ["claude", "codex"])
async def test_a_missing_binary_is_reported_with_what_to_do(kind: str, tmp_path: Path):
    reason = await failure(chosen(kind=kind, command=(str(tmp_path / kind),)))
    assert "was not found: install it or set runtime.command" in reason


async def test_a_program_without_permission_is_reported(tmp_path: Path):
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n")
    reason = await failure(chosen(kind="claude", command=(str(program),)))
    assert "may not be executed" in reason


async def test_a_program_that_is_none_is_reported(tmp_path: Path):
    program = tmp_path / "model"
    program.write_bytes(b"\x7fELF rubbish")
    program.chmod(0o755)
    assert "could not be started" in await failure(chosen(kind="command", command=(str(program),)))


async def test_an_empty_command_is_reported():
    assert "runtime.command is empty" in await failure(chosen(kind="command"))


async def test_a_relative_program_is_found_from_the_directory_of_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program = tmp_path / "model"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert (await chosen(kind="command", command=("./model",)).complete("x")).text == "hello"


async def test_a_failure_repeats_neither_the_prompt_nor_a_secret(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_KEY", "hunter2-hunter2")
    code = (
        "import sys, os, json; prompt = sys.stdin.read(); "
        "sys.exit(prompt + '\\n' + json.dumps(prompt) + '\\nkey ' + os.environ['MY_KEY'] "
        "+ ' sk-ant-abcdef123 Bearer xyz.abc https://me:pw@host/ refused')"
    )
    prompt = "Alice's diary: she never told anyone that the key is under the third stone."
    reason = await failure(python(code, api_key_env="MY_KEY"), prompt)
    assert "refused" in reason
    for private in ("diary", "stone", "hunter2", "abcdef123", "xyz.abc", ":pw@"):
        assert private not in reason


async def test_a_failure_is_unavailability_and_costs_nothing_known():
    with pytest.raises(Unavailable) as failed:
        await python("raise SystemExit(1)").complete("x")
    assert failed.value.usage == Usage()


def test_importing_the_door_imports_no_http_client():
    import subprocess

    code = "import sys, butlers.llm; sys.exit('httpx2' in sys.modules or 'pydantic' in sys.modules)"
    path = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, check=False)
    assert done.returncode == 0


@pytest.mark.contract("L28")
@pytest.mark.parametrize(
    ("complaint", "is_outage"),
    [
        ("API Error: 529 overloaded_error", True),
        ("Credit balance is too low", True),
        ("You've hit your usage limit", True),
        ("Not logged in", True),
        ("could not connect to host", True),
        ("rate limit reached", True),
        ("prompt is too long: 250000 tokens", False),
        ("this request violates our usage policy", False),
    ],
)
async def test_an_outage_is_told_apart_from_a_failure(complaint: str, is_outage: bool):
    model = python(f"import sys; sys.exit({complaint!r})")
    with pytest.raises(CompletionFailed) as failed:
        await model.complete("Say hello.")
    assert isinstance(failed.value, NotReached) == is_outage
    missing = chosen(kind="command", command=("no-such-program-at-all",))
    with pytest.raises(NotReached):
        await missing.complete("Say hello.")
