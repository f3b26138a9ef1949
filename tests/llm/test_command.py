"""The command runtime over real processes: what goes in, what comes out, what is left behind."""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from butlers.errors import InvalidInput, Unavailable
from butlers.llm import CompletionFailed, LanguageModel, RuntimeOptions, Usage, language_model
from butlers.llm.process import MAX_OUTPUT_BYTES

SCHEMA = {
    "type": "object",
    "properties": {"facts": {"type": "array", "items": {"type": "string"}}},
    "required": ["facts"],
}
ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"


def python(code: str, *arguments: str, **options: object) -> LanguageModel:
    """A runtime whose model is a few lines of Python."""
    command = (sys.executable, "-I", "-c", code, *arguments)
    return chosen(kind="command", command=command, **options)


def chosen(**options: object) -> LanguageModel:
    model = language_model(RuntimeOptions(**options))
    assert model is not None
    return model


async def failure(model: LanguageModel, prompt: str = "Say hello.", **how: float) -> str:
    """The reason the model gives for having no answer."""
    with pytest.raises(CompletionFailed) as failed:
        await model.complete(prompt, **how)
    reason = str(failed.value)
    assert "\n" not in reason
    return reason


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where workplaces appear during a test, to see that none stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.contract("R12.3")
def test_no_runtime_is_no_model():
    assert language_model(RuntimeOptions()) is None


def test_an_unknown_kind_is_refused():
    with pytest.raises(InvalidInput, match="runtime.kind is 'oracle'"):
        language_model(RuntimeOptions(kind="oracle"))


@pytest.mark.contract("R12.2")
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
        ("raise SystemExit(3)", "the command ended with exit code 3: it said nothing"),
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
    reason = await failure(chosen(kind=kind, binary=str(tmp_path / kind)))
    assert "was not found: install it or set runtime.binary" in reason


async def test_a_program_without_permission_is_reported(tmp_path: Path):
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n")
    reason = await failure(chosen(kind="claude", binary=str(program)))
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


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_output_without_end_is_stopped(stream: str):
    code = f"import sys\nwhile True: sys.{stream}.write('x' * 65536)"
    started = time.monotonic()
    assert f"more than {MAX_OUTPUT_BYTES // 1024**2} MB" in await failure(python(code))
    assert time.monotonic() - started < 20


async def test_a_large_answer_within_the_limit_arrives_whole():
    size = MAX_OUTPUT_BYTES - 10
    assert len((await python(f"print('x' * {size})").complete("x")).text) == size


async def test_a_program_that_reads_nothing_may_answer():
    assert (await python("print('fine')").complete("x" * 2_000_000)).text == "fine"


FAMILY = """
import os, signal, subprocess, sys, time
late = "import signal, time, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); " \\
    "open(sys.argv[1], 'w').close(); time.sleep(float(sys.argv[3])); open(sys.argv[2], 'w').close()"
subprocess.Popen([sys.executable, "-I", "-c", late, *sys.argv[1:4]])
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
print("answer", flush=True)
if sys.argv[4] == "stay":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)
"""


class Family:
    """A program whose own child ignores requests to end and would write a file later."""

    def __init__(self, directory: Path, manner: str) -> None:
        self.born, self.late = directory / "born", directory / "late"
        self.model = python(FAMILY, str(self.born), str(self.late), "4", manner)

    async def is_born(self) -> None:
        while not self.born.exists():
            await asyncio.sleep(0.02)

    async def is_gone(self) -> None:
        assert self.born.exists()
        assert processes_mentioning(str(self.born)) == []
        await asyncio.sleep(0.1)
        assert not self.late.exists()


def processes_mentioning(text: str) -> list[int]:
    """Processes, zombies among them, whose command line mentions the text or whose parent is us."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if text.encode() in command or (state == "Z" and int(parent) == os.getpid()):
            found.append(int(entry.name))
    return found


linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@pytest.fixture
def family(tmp_path: Path) -> Callable[[str], Family]:
    return lambda manner: Family(tmp_path, manner)


@linux
async def test_a_slow_program_is_ended_with_all_its_children(family: Callable[[str], Family]):
    slow = family("stay")
    assert "did not answer within 1 s" in await failure(slow.model, timeout_seconds=1.0)
    await slow.is_gone()


@linux
async def test_cancellation_ends_the_program_with_all_its_children(
    family: Callable[[str], Family], scratch: Path
):
    cancelled = family("stay")
    task = asyncio.create_task(cancelled.model.complete("x"))
    await cancelled.is_born()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await cancelled.is_gone()
    assert {entry.name for entry in scratch.iterdir()} == {"born"}


@linux
async def test_an_impatient_second_cancellation_leaves_nothing_either(
    family: Callable[[str], Family],
):
    cancelled = family("stay")
    task = asyncio.create_task(cancelled.model.complete("x"))
    await cancelled.is_born()
    task.cancel()
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.3)
    await cancelled.is_gone()


@linux
async def test_a_child_left_behind_holds_up_no_answer_and_is_ended(
    family: Callable[[str], Family],
):
    quick = family("leave")
    started = time.monotonic()
    assert (await quick.model.complete("x")).text == "answer"
    assert time.monotonic() - started < 3.5
    await quick.is_gone()


async def test_the_shorter_of_both_time_limits_holds():
    model = python("import time; time.sleep(60)", timeout_seconds=0.3)
    assert "within 0.3 s" in await failure(model, timeout_seconds=60.0)


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
    for private in ("diary", "stone", "hunter2", "abcdef123", "xyz.abc", "me:pw"):
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
