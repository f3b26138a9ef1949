"""Count the functions and files of the product that one tool call runs through.

Starts `butlers up` in an empty home, calls `memory_store_fact` and `memory_recall` over MCP with a
token, and counts the distinct functions that ran, background work included. A function inside
another counts as one with it. The first call of each tool is not counted: it also loads the model
and opens connections. What the daemon does by itself meanwhile is left out: it looks into its spool
and after its database.

    python scripts/call_path.py                 print a table
    python scripts/call_path.py --json          print JSON
    python scripts/call_path.py --list recall   print every function of one call
"""

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import butlers

SOURCE = Path(butlers.__file__).parents[1]
CALLS: Mapping[str, tuple[str, list[dict[str, Any]]]] = {
    "store": (
        "memory_store_fact",
        [
            {"subject": "Ann", "predicate": "likes", "content": "green tea with lemon"},
            {"subject": "Bob", "predicate": "drinks", "content": "coffee without sugar"},
        ],
    ),
    "recall": (
        "memory_recall",
        [{"topic": "What does Ann like?"}, {"topic": "Who drinks coffee?"}],
    ),
}
BACKGROUND = ("SpoolWorker._run", "DatabaseServer._watch")
SETTLE_SECONDS = 0.4


class Tracer:
    """Collects the code that runs between two signals, and writes its names into a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen: set[CodeType] = set()
        self._records = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if self._records and event == "call" and not _is_background(frame):
            self._seen.add(frame.f_code)

    def begin(self, *_: object) -> None:
        """Forget what ran before."""
        self._seen, self._records = set(), True

    def end(self, *_: object) -> None:
        """Write what ran since `begin`."""
        self._records = False
        functions = {
            (code.co_filename.removeprefix(f"{SOURCE}/"), code.co_qualname.split(".<locals>")[0])
            for code in self._seen
            if code.co_filename.startswith(f"{SOURCE}/") and not code.co_qualname.startswith("<")
        }
        unfinished = self._file.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(sorted(functions)))
        unfinished.rename(self._file)


def _is_background(frame: FrameType | None) -> bool:
    """Whether the daemon runs this by itself and for no call."""
    while frame is not None:
        if frame.f_code.co_qualname in BACKGROUND:
            return True
        frame = frame.f_back
    return False


def serve(home: Path, file: Path) -> None:
    """Run `butlers up` in this process, traced."""
    from butlers.entry import main as butlers_main  # noqa: PLC0415

    tracer = Tracer(file)
    signal.signal(signal.SIGUSR1, tracer.begin)
    signal.signal(signal.SIGUSR2, tracer.end)
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    sys.argv = ["butlers", "up", "--home", str(home), "--port", "0"]
    butlers_main()


@contextmanager
def daemon(home: Path, file: Path) -> Iterator[tuple["subprocess.Popen[bytes]", str, str]]:
    """A traced daemon, the address of its MCP endpoint, and a token for it."""
    command = [sys.executable, __file__, "--serve", str(home), "--into", str(file)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        run_file = home / "run.json"
        while not run_file.exists():
            assert process.poll() is None, "the daemon did not start"
            time.sleep(0.1)
        address = json.loads(run_file.read_text())["butlers"]["general"]["mcp"]
        created = subprocess.run(
            [sys.executable, "-m", "butlers", "token", "new", "--home", str(home)],
            check=True,
            capture_output=True,
            text=True,
        )
        yield process, address, next(w for w in created.stdout.split() if w.startswith("btl_"))
    finally:
        process.terminate()
        process.wait()


async def measure(home: Path, file: Path) -> dict[str, list[list[str]]]:
    """Return the functions that each call ran through, as pairs of file and name."""
    passed = {}
    with daemon(home, file) as (process, address, token):
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            for name, (tool, (first, second)) in CALLS.items():
                await client.call_tool(tool, first)
                await asyncio.sleep(SETTLE_SECONDS)
                process.send_signal(signal.SIGUSR1)
                answer = await client.call_tool(tool, second)
                assert not answer.is_error, answer
                await asyncio.sleep(SETTLE_SECONDS)
                process.send_signal(signal.SIGUSR2)
                while not file.exists():
                    await asyncio.sleep(0.05)
                passed[name] = json.loads(file.read_text())
                file.unlink()
    return passed


def write(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")


def show(passed: Mapping[str, list[list[str]]], options: argparse.Namespace) -> None:
    """Print what was asked for."""
    if options.list:
        write("\n".join(f"{file}  {name}" for file, name in passed[options.list]))
        return
    figures = {
        name: {"functions": len(found), "files": len({file for file, _ in found})}
        for name, found in passed.items()
    }
    if options.json:
        write(json.dumps(figures))
        return
    for name, counts in figures.items():
        write(f"{name:8}{counts['functions']:5} functions in {counts['files']:3} files")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--list", choices=CALLS, help="print every function of one call")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.into)
        return
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        beside = Path(directory)
        show(asyncio.run(measure(beside / "home", beside / "functions.json")), options)


if __name__ == "__main__":
    main()
