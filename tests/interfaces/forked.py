"""`butlers` by a process that has imported it already and forks, so that imports are paid for once.

A command so started is a process of its own like any other, with its own arguments, environment,
directory and streams; only the interpreter and the modules are there from the beginning.
"""

import atexit
import gc
import importlib
import inspect
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

_IMPORTED = (
    "butlers.interfaces.cli",
    "butlers.host.hosting",
    "butlers.interfaces.daemon",
    "butlers.interfaces.web.app",
    "butlers.memory.operations",
    "butlers.notebook.operations",
)
_DEFAULTS = "TEST_DEFAULTS"
_NUMBER = struct.Struct("i")
_sending = threading.Lock()


def with_defaults(values: dict[str, dict[str, float]]) -> dict[str, str]:
    """The environment of a forked command in which values that are no settings differ.

    `{"package.module": {"CONSTANT": 1}}` or `{"package.module:Class.method": {"parameter": 1}}`.
    """
    return {_DEFAULTS: json.dumps(values)}


def _set_defaults(where: str, values: dict[str, float]) -> None:
    module, _, name = where.partition(":")
    target: Any = importlib.import_module(module)
    for part in filter(None, name.split(".")):
        target = getattr(target, part)
    if not name:
        assert values.keys() <= vars(target).keys(), values
        vars(target).update(values)
        return
    parameters = inspect.signature(target).parameters
    assert values.keys() <= parameters.keys(), values
    named = [one for one in parameters.values() if one.default is not one.empty]
    plain = [one for one in named if one.kind is not one.KEYWORD_ONLY]
    target.__defaults__ = tuple(values.get(one.name, one.default) for one in plain)
    target.__kwdefaults__ = {
        one.name: values.get(one.name, one.default) for one in named if one not in plain
    }


class Forked:
    """A command under way; the part of `subprocess.Popen` that tests use."""

    def __init__(
        self, arguments: list[str], env: dict[str, str], cwd: Path | None, streams: list[int]
    ) -> None:
        self.args = arguments
        self.returncode: int | None = None
        self._told, telling = os.pipe()
        where = str(cwd or Path.cwd())
        request = {"arguments": arguments, "environment": env, "cwd": where}
        _send(request, [*streams, telling])
        os.close(telling)
        self.pid = self._number()

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _end(self) -> None:
        self.returncode = self._number()
        os.close(self._told)

    def _number(self) -> int:
        number: int = _NUMBER.unpack(os.read(self._told, _NUMBER.size))[0]
        return number


def run_forked(
    arguments: list[str],
    env: dict[str, str],
    timeout: float,
    input: str | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; it has ended once nobody can write to its streams any more."""
    (stdin, given), (said, stdout), (complained, stderr) = os.pipe(), os.pipe(), os.pipe()
    streams = [stdin if input is not None else 0, stdout, stderr]
    process = Forked(arguments, env, cwd, streams)
    for one in (stdin, stdout, stderr):
        os.close(one)
    with ThreadPoolExecutor(3) as others:
        others.submit(_write, given, input or "")
        told = [others.submit(_read, one) for one in (said, complained)]
        try:
            code = process.wait(timeout)
            output, complaint = (one.result(timeout) for one in told)
        except (TimeoutError, subprocess.TimeoutExpired):
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, code, output, complaint)


def _write(descriptor: int, text: str) -> None:
    # Whoever does not read to the end need not.
    with suppress(BrokenPipeError), open(descriptor, "w") as file:
        file.write(text)


def _read(descriptor: int) -> str:
    with open(descriptor) as file:
        return file.read()


def _send(request: dict[str, Any], descriptors: list[int]) -> None:
    body = json.dumps(request).encode()
    with _sending:
        socket.send_fds(_server(), [_NUMBER.pack(len(body))], descriptors)
        _server().sendall(body)


@cache
def _server() -> socket.socket:
    """The process that forks; it ends with the one that started it."""
    ours, theirs = socket.socketpair()
    command = f"from interfaces.forked import serve; serve({theirs.fileno()})"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-c", command],
        env=environment,
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # no command so started has the terminal that the tests run at
    )
    theirs.close()
    atexit.register(lambda: (ours.close(), process.wait()))
    return ours


def serve(descriptor: int) -> None:
    """Fork for every request until nobody can make one any more."""
    for module in _IMPORTED:
        importlib.import_module(module)
    gc.freeze()
    with socket.socket(fileno=descriptor) as requests:
        while True:
            header, descriptors, _, _ = socket.recv_fds(requests, _NUMBER.size, 4)
            if not header:
                return
            (size,) = _NUMBER.unpack(header)
            request = json.loads(requests.recv(size, socket.MSG_WAITALL))
            if os.fork() == 0:
                requests.close()
                break
            for one in descriptors:
                os.close(one)
            _reap()
    _keep(request, *descriptors)


def _reap() -> None:
    """Let go of those that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _keep(request: dict[str, Any], stdin: int, stdout: int, stderr: int, telling: int) -> None:
    """Tell which process the command has, and what came of it: only its parent learns that."""
    command = os.fork()
    if command == 0:
        os.close(telling)
        return _become(request, (stdin, stdout, stderr))
    for one in (stdin, stdout, stderr):
        os.close(one)
    os.write(telling, _NUMBER.pack(command))
    _, status = os.waitpid(command, 0)
    os.write(telling, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _become(request: dict[str, Any], streams: tuple[int, ...]) -> None:
    for ours, theirs in enumerate(streams):
        os.dup2(theirs, ours)
        os.close(theirs)
    # Those that are there remember what kind of file they were over.
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for where, values in json.loads(os.environ.pop(_DEFAULTS, "{}")).items():
        _set_defaults(where, values)
    sys.argv = ["butlers", *request["arguments"]]
    runpy.run_module("butlers", run_name="__main__", alter_sys=True)
