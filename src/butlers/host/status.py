"""Whether a home is up: the lock that its process holds, and where that process listens.

Several processes serve a home whose butlers are all on external servers; each holds a lock, and
tells where it listens, at a place of its own.
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
_GLANCE_SECONDS = 0.05
_GLANCES = 4
MOST_PLACES = 64


@dataclass(frozen=True, slots=True)
class Running:
    """How to reach a home that is up; `run.json` says all of it."""

    url: str
    pid: int
    butlers: dict[str, dict[str, str]]
    version: str = ""
    started_at: str = ""
    key: str = field(default="", repr=False)
    """What this process tells its health in full for."""


@contextmanager
def alone(home: Home) -> Iterator[None]:
    """Nobody else serves the home; the lock goes with the process, however it ends."""
    with _locked(home) as lock:
        if not _taken(lock) or homes_served(home)[1:]:
            raise Conflict(
                f"the butlers of {home.root} are already up; `butlers status` says where. "
                "Stop them first with `butlers stop`, or use another home with --home DIR"
            )
        _sign(lock)
        home.run_file.unlink(missing_ok=True)  # left by a process that was killed
        yield


@contextmanager
def beside_others(home: Home) -> Iterator[Home]:
    """The home at the first place that nobody serves it from."""
    for place in range(1, MOST_PLACES + 1):
        here = home.at(place)
        with _locked(here) as lock:
            if _taken(lock, glances=1):
                _sign(lock)
                here.run_file.unlink(missing_ok=True)
                yield here
                return
    raise Conflict(f"{MOST_PLACES} processes serve {home.root} already; use another home")


def homes_served(home: Home) -> list[Home]:
    """The home at each place that some process serves it from."""
    every = (home.at(place) for place in range(1, MOST_PLACES + 1))
    return [one for one in every if is_up(one)]


def _locked(home: Home) -> IO[bytes]:
    # Neither truncated nor appended to: it may be another's.
    return os.fdopen(os.open(home.lock_file, os.O_RDWR | os.O_CREAT, 0o644), "r+b")


def _taken(lock: IO[bytes], glances: int = _GLANCES) -> bool:
    """Whether the lock is ours now; whoever only looks at it lets go in no time."""
    for _ in range(glances):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(_GLANCE_SECONDS)
    return False


def _sign(lock: IO[bytes]) -> None:
    """Write down who holds the lock; whoever reads meanwhile finds a number all the same."""
    signature = f"{os.getpid()}\n".encode()
    os.pwrite(lock.fileno(), signature, 0)
    lock.truncate(len(signature))


@contextmanager
def announced(home: Home, running: Running) -> Iterator[None]:
    """`run.json` says where to find us, from ready until stopped."""
    replace_file(home.run_file, json.dumps(asdict(running), indent=2) + "\n")
    try:
        yield
    finally:
        home.run_file.unlink(missing_ok=True)


def is_up(home: Home) -> bool:
    """Whether a process serves the home; one that was killed has lost its lock."""
    try:
        with home.lock_file.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def running(home: Home) -> Running | None:
    """Where the home is served; None while nothing is, or it is starting or stopping."""
    if not is_up(home):
        return None
    try:
        told = json.loads(home.run_file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    known = Running.__dataclass_fields__
    return Running(**{key: value for key, value in told.items() if key in known})


def served(home: Home) -> Running | None:
    """Where the home is served from any of its places, the first that is."""
    told = (running(one) for one in homes_served(home))
    return next((one for one in told if one is not None), None)


def process_of(home: Home) -> int | None:
    """The process that holds the home's lock, be it just starting; None when nobody does."""
    if not is_up(home):
        return None
    signed = home.lock_file.read_text(encoding="utf-8").split()
    if signed:
        return int(signed[0])
    found = running(home)  # version 0.1.0 said so only here
    if found is None:
        raise Unavailable(f"the butlers of {home.root} are just starting; try again in a moment")
    return found.pid


def ask_to_stop(home: Home, pid: int) -> bool:
    """Ask a process to stop while it holds the home's lock; false when it no longer does.

    A number of a process may have been given to another meanwhile: a handle is taken on it first
    (where the system has such), and the lock asked again before anything is sent.
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
            f"process {pid}, which serves {home.root}, is another user's; stop it as that user"
        ) from error
    return True


@contextmanager
def _handle(pid: int) -> Iterator[Callable[[int], None]]:
    """What sends a signal to the process."""
    if not hasattr(os, "pidfd_open"):
        yield partial(os.kill, pid)
        return
    handle = os.pidfd_open(pid)
    try:
        yield partial(signal.pidfd_send_signal, handle)
    finally:
        os.close(handle)


def reasons(butler: Mapping[str, Any]) -> list[str]:
    """Why a butler is not well, as its health tells it: in all, or by module."""
    modules = butler.get("modules", {}).items()
    unwell = {name: one for name, one in modules if one["status"] != "ok"}
    told = [f"{name}: {one['error']}" if "error" in one else name for name, one in unwell.items()]
    return [butler["error"]] if "error" in butler else told


def health(found: Running) -> tuple[str, dict[str, Any]]:
    """How the butlers of a home say they are: in one word, and each of them."""
    asked = urllib.request.Request(f"{found.url}/health")
    asked.add_header("Authorization", f"Bearer {found.key}")
    try:
        with _opener().open(asked, timeout=_PATIENCE_SECONDS) as answer:
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
    """What the process that serves a home answers; Unavailable says why it does not."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with _opener().open(request, timeout=seconds) as answer:
            told: dict[str, Any] = json.loads(answer.read())
    except urllib.error.HTTPError as refusal:
        with refusal:
            raise Unavailable(_explanation(refusal)) from None
    except TimeoutError:
        raise Unavailable(f"the butlers did not answer within {seconds:g} s") from None
    except (OSError, http.client.HTTPException, ValueError):
        raise Unavailable(
            "the butlers went away before they answered; `butlers up` starts them, and "
            "`butlers logs` may say why"
        ) from None
    return told


def _explanation(refusal: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(refusal.read())["error"]["message"])
    except (OSError, ValueError, TypeError, KeyError):
        return f"the butlers answered {refusal.code}; `butlers logs` may say why"


def _opener() -> urllib.request.OpenerDirector:
    # Ours is on this machine: a proxy of the environment has no business here.
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))
