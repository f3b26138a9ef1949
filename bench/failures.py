"""How often an error seen before is answered with what fixed it, and a command with its rule.

`python -m bench failures` reads `stores/failures`: errors with their fixes, the same errors later
with other numbers, paths and versions, look-alikes whose fix would be wrong, and rules with calls
that should and should not be answered with them. A third of each, `unread`, was kept aside while
the product was made; `second` and `third` were written afterwards, to be harder, and read. It needs
no database, and measures the processor time of the hook as well.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID

from butlers.kernel.token_count import count_tokens
from butlers.memory.trust import Origin, Trust
from butlers.sessions import tool_digest
from butlers.sessions.agent_calls import AgentCall, digest, failure_keys
from butlers.sessions.error_match import most_alike
from butlers.sessions.error_signature import error_signature
from butlers.sessions.tool_memory import (
    ABOUT_CALL,
    ABOUT_ERROR,
    failure_line,
    fitting,
    gotcha_line,
    is_about,
)

STORES = Path(__file__).parent / "stores" / "failures"
HALVES = ("dev", "unread", "second", "third")
LEAST_TOLD, MOST_WRONG, MOST_CPU_MS, RUNS = 0.8, 0.05, 50.0, 20
_ROW = {"id": UUID(int=1), "origin": Origin.USER, "trust": Trust.STATED, "subject": "",
        "content": "", "said_at": datetime(2026, 11, 12, tzinfo=UTC)}  # fmt: skip


@dataclass(slots=True)
class Figures:
    """How many were answered rightly and wrongly, of how many, and how long the answers are."""

    right: int = 0
    wrong: int = 0
    expected: int = 0
    tried: int = 0
    tokens: int = 0

    def holds(self) -> bool:
        """Whether enough is told, and little wrongly."""
        return self.right >= LEAST_TOLD * self.expected and self.wrong <= MOST_WRONG * self.tried


def read(name: str, half: str) -> list[dict[str, Any]]:
    """Read one half of a file."""
    lines = (STORES / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [one for one in map(json.loads, lines) if one["half"] == half]


def measure_errors(half: str) -> Figures:
    """Ask for the fix of each later error and each look-alike, among all failures of the half."""
    pairs, figures = read("pairs", half), Figures()
    store = [_ROW | pair["seen"] | {"pair": pair["id"]} for pair in pairs]
    store = [one | {"error": error_signature(one["output"])} for one in store]
    for pair in pairs:
        for kind in ("later", "look_alike"):
            seen = pair[kind]
            best = most_alike(store, error_signature(seen["output"]), seen["command"])
            is_right = kind == "later" and best is not None and best["pair"] == pair["id"]
            figures.right += is_right
            figures.wrong += best is not None and not is_right
            if best is not None:
                text = fitting(ABOUT_ERROR, [failure_line(best)]).text
                figures.tokens = max(figures.tokens, count_tokens(text))
    figures.expected, figures.tried = len(pairs), 2 * len(pairs)
    return figures


def measure_rules(half: str) -> Figures:
    """Make each call; of all rules of the half, only those about it may be told."""
    rules, figures = read("rules", half), Figures()
    rows = [_rule_row(rule) for rule in rules]
    for rule in rules:
        for call in (*rule["triggers"], *rule["silent"]):
            file = call.get("file")
            made = AgentCall(call.get("command", ""), (file,) if file else ())
            told = [row for row in rows if is_about(row, made)]
            own = rule["id"] in {row["rule"] for row in told}
            is_expected = call in rule["triggers"]
            figures.expected += is_expected
            figures.right += own and is_expected
            figures.wrong += own and not is_expected
            figures.tried += 1
            text = fitting(ABOUT_CALL, map(gotcha_line, told)).text
            figures.tokens = max(figures.tokens, count_tokens(text))
    return figures


def _rule_row(rule: dict[str, Any]) -> dict[str, Any]:
    about = {"memory_type": rule["kind"], "content": rule["text"], "rule": rule["id"]}
    figures = {"maturity": "candidate", "effectiveness_score": 0.0, "effective_confidence": 1.0}
    return {**_ROW, "predicate": "", **about, **figures}


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:  # noqa: N802
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"context": "known"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def home() -> Iterator[str]:
    """A home with a digest and a daemon that answers at once."""
    server = HTTPServer(("127.0.0.1", 0), _Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "hooks").mkdir()
        (Path(root) / "hooks" / "general.token").write_text("token")
        running = {"url": f"http://127.0.0.1:{server.server_port}", "pid": os.getpid()}
        (Path(root) / "run.json").write_text(json.dumps(running))
        pairs = read("pairs", "dev")
        keys = {"make deploy"}.union(
            *(failure_keys(error_signature(p["seen"]["output"]), p["tool"]) for p in pairs)
        )
        tool_digest.write(root, "general", "/srv/shop", digest(keys))
        yield root
    server.shutdown()


def hook_cpu(root: str, event: dict[str, Any]) -> tuple[float, str]:
    """The median processor time of the hook in milliseconds, and what it printed."""
    command = [sys.executable, "-P", "-m", "butlers.hook", "general", "--home", root]
    times, output = list[float](), b""
    for _ in range(RUNS):
        given = json.dumps({"session_id": "s", "cwd": "/srv/shop", **event}).encode()
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin and process.stdout
        process.stdin.write(given)
        process.stdin.close()
        output = process.stdout.read()
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        times.append((used.ru_utime + used.ru_stime) * 1_000)
    return median(times), output.decode()


def measure_hook() -> dict[str, tuple[float, str]]:
    """Run the hook where something is known and where nothing is."""
    error = read("pairs", "dev")[0]["later"]
    other = {"command": "qemu-img info disk", "output": "qemu-img: Could not open 'disk'"}
    with home() as root:
        return {
            name: hook_cpu(root, event)
            for name, event in {
                "before, unknown": _before("ls -la src"),
                "before, known": _before("make deploy"),
                "failed, unknown": _failed(other),
                "failed, known": _failed(error),
            }.items()
        }


def _before(command: str) -> dict[str, Any]:
    return {"hook_event_name": "PreToolUse", "tool_input": {"command": command}}


def _failed(call: dict[str, Any]) -> dict[str, Any]:
    given = {"tool_input": {"command": call["command"]}, "error": call["output"]}
    return {"hook_event_name": "PostToolUseFailure", **given}


def main(options: Sequence[str] = ()) -> int:
    """Print the figures; 1 if a half misses a goal."""
    holds = True
    for half in HALVES:
        for name, measure in (("errors", measure_errors), ("rules", measure_rules)):
            one = measure(half)
            holds = holds and one.holds()
            if not one.tried:
                continue
            print(
                f"{name}, {half}: told {one.right} of {one.expected}, "
                f"wrongly {one.wrong} of {one.tried}, at most {one.tokens} tokens"
            )
    for name, (cpu, output) in measure_hook().items():
        holds = holds and cpu <= MOST_CPU_MS
        print(f"hook {name}: {cpu:.0f} ms of CPU, {'something' if output else 'nothing'} told")
    return 0 if holds else 1
