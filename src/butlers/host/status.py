"""Whether a home is served: the lock that its daemon holds, and where the daemon listens.

Several daemons may serve a home whose butlers all use external database servers. Each has a number,
and its own lock and run file.
"""

import fcntl
import http.client
import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import IO, Any

from butlers.atomic_files import replace_file
from butlers.errors import Conflict, Unavailable
from butlers.host.home import Home

_PATIENCE_SECONDS = 8.0
_LOCK_TRIES, _LOCK_RETRY_SECONDS = 4, 0.05
_MOST_PROCESSES = 64


@dataclass(frozen=True, slots=True)
class Running:
    """How to reach a daemon: the content of `run.json`."""

    url: str
    pid: int
    butlers: dict[str, dict[str, str]]
    version: str = ""
    started_at: str = ""
    key: str = field(default="", repr=False)
    """The token for which this process reports its health in full."""


@contextmanager
def alone(home: Home) -> Iterator[Home]:
    """Hold the lock of a home that no other process serves; Conflict if one does."""
    with _open_lock(home) as lock:
        if not _taken(lock) or homes_served(home)[1:]:
            raise Conflict(
                f"the daemon of {home.root} is already running; `butlers status` shows where. "
                "Stop it first with `butlers stop`, or use another home with --home DIR"
            )
        _sign(home, lock)
        yield home


@contextmanager
def beside_others(home: Home) -> Iterator[Home]:
    """Hold the first free lock of a home that several processes may serve."""
    for each in _processes(home):
        with _open_lock(each) as lock:
            if _taken(lock, tries=1):
                _sign(each, lock)
                yield each
                return
    raise Conflict(f"{_MOST_PROCESSES} processes serve {home.root} already; use another home")


def homes_served(home: Home) -> list[Home]:
    """Return the home once for each process that serves it."""
    return [each for each in _processes(home) if is_up(each)]


def _processes(home: Home) -> Iterator[Home]:
    return map(home.of_process, range(1, _MOST_PROCESSES + 1))


def _open_lock(home: Home) -> IO[bytes]:
    # Neither truncated nor appended to: another process may hold it.
    return os.fdopen(os.open(home.lock_file, os.O_RDWR | os.O_CREAT, 0o644), "r+b")


def _taken(lock: IO[bytes], tries: int = _LOCK_TRIES) -> bool:
    """Take the lock; try again, because `is_up` of another process holds it for a moment."""
    for _ in range(tries):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(_LOCK_RETRY_SECONDS)
    return False


def _sign(home: Home, lock: IO[bytes]) -> None:
    """Write the process id into the lock, so that a reader always finds a number."""
    signature = f"{os.getpid()}\n".encode()
    os.pwrite(lock.fileno(), signature, 0)
    lock.truncate(len(signature))
    home.run_file.unlink(missing_ok=True)  # left by a process that was killed


@contextmanager
def announced(home: Home, running: Running) -> Iterator[None]:
    """Within this block `run.json` says where the daemon listens."""
    replace_file(home.run_file, json.dumps(asdict(running), indent=2) + "\n")
    try:
        yield
    finally:
        home.run_file.unlink(missing_ok=True)


def is_up(home: Home) -> bool:
    """Whether a process holds the lock of the home; a killed one no longer does."""
    try:
        with home.lock_file.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def running(home: Home) -> Running | None:
    """Return where the daemon listens; None if there is none, or it is starting or stopping."""
    if not is_up(home):
        return None
    try:
        fields = json.loads(home.run_file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    known = fields.keys() & Running.__dataclass_fields__.keys()
    return Running(**{key: fields[key] for key in known})


def served(home: Home) -> Running | None:
    """Return where the first daemon of the home listens that is ready."""
    return next(filter(None, map(running, homes_served(home))), None)


def process_of(home: Home) -> int | None:
    """Return the id of the process that holds the lock, even while it starts; None if none does."""
    if not is_up(home):
        return None
    signed = home.lock_file.read_text(encoding="utf-8").split()
    if signed:
        return int(signed[0])
    daemon = running(home)  # version 0.1.0 wrote it only there
    if daemon is None:
        raise Unavailable(f"the daemon of {home.root} is starting; try again in a moment")
    return daemon.pid


def ask_to_stop(home: Home, pid: int) -> bool:
    """Ask a process to stop; false if it no longer holds the lock of the home.

    The system may have given its id to another process. So a handle is taken first, if the system
    has them, and the lock is read again before the signal is sent.
    """
    try:
        with _handle(pid) as send:
            if process_of(home) != pid:
                return False
            send(signal.SIGTERM)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise Unavailable(
            f"process {pid}, which serves {home.root}, belongs to another user; stop it as that "
            "user"
        ) from error
    return True


@contextmanager
def _handle(pid: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that sends a signal to the process."""
    if not hasattr(os, "pidfd_open"):
        yield partial(os.kill, pid)
        return
    handle = os.pidfd_open(pid)
    try:
        yield partial(signal.pidfd_send_signal, handle)
    finally:
        os.close(handle)


def reasons(butler: Mapping[str, Any]) -> list[str]:
    """Return why a butler is unwell: its own error, or the errors of its modules."""
    if "error" in butler:
        return [butler["error"]]
    modules = butler.get("modules", {}).items()
    unwell = [(name, module) for name, module in modules if module["status"] != "ok"]
    return [f"{name}: {module['error']}" if "error" in module else name for name, module in unwell]


def health(daemon: Running) -> tuple[str, dict[str, Any]]:
    """Ask a daemon for its health: one word for all, and a report for each butler."""
    try:
        with _open(f"{daemon.url}/health", daemon.key, _PATIENCE_SECONDS) as answer:
            body = answer.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            body = refusal.read()
    except OSError:
        return "silent", {}
    try:
        report = json.loads(body)
        return report["status"], report["butlers"]
    except (ValueError, TypeError, KeyError):
        return "strange", {}


def post(url: str, body: dict[str, Any], token: str, seconds: float) -> dict[str, Any]:
    """Send a request to the daemon and return its answer; Unavailable says why there is none."""
    try:
        with _open(url, token, seconds, json.dumps(body).encode()) as answer:
            return dict(json.loads(answer.read()))
    except urllib.error.HTTPError as refusal:
        with refusal:
            raise Unavailable(_explanation(refusal)) from None
    except TimeoutError:
        raise Unavailable(f"the daemon did not answer within {seconds:g} s") from None
    except (OSError, http.client.HTTPException, ValueError):
        raise Unavailable(
            "the daemon stopped before it answered; `butlers logs` shows why. Start it again with "
            "`butlers up`"
        ) from None


def _explanation(refusal: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(refusal.read())["error"]["message"])
    except (OSError, ValueError, TypeError, KeyError):
        return f"the daemon answered {refusal.code}; `butlers logs` shows why"


def _open(url: str, token: str, seconds: float, body: bytes | None = None) -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    # The daemon is on this machine: a proxy of the environment must not be used.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(urllib.request.Request(url, body, headers), timeout=seconds)
