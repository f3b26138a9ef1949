"""HAProxy as `docs/operations.md` shows it, in front of daemons of a test."""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from interfaces.daemons import until

HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
needs_haproxy = pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed here")
_DOCUMENTED = Path(__file__).parents[2] / "docs" / "operations.md"


def documented() -> str:
    """The configuration that operators are told to use."""
    [found] = re.findall(r"```haproxy\n(.*?)```", _DOCUMENTED.read_text(), re.DOTALL)
    return str(found)


def configuration(port: int, ports: Sequence[int]) -> str:
    """The same, with other addresses."""
    text, number = re.subn(r"(?m)^    bind .*$", f"    bind 127.0.0.1:{port}", documented())
    servers = [f"    server d{one} 127.0.0.1:{one}" for one in ports]
    kept = [line for line in text.splitlines() if not line.startswith("    server ")]
    assert number == 1 and len(text.splitlines()) - len(kept) == 3
    return "\n".join([*kept, *servers, ""])


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


@contextmanager
def balanced(directory: Path, ports: Sequence[int]) -> Iterator[str]:
    """Where the balancer of these ports listens."""
    assert HAPROXY is not None
    [port] = free_ports(1)
    file = directory / "haproxy.cfg"
    file.write_text(configuration(port, ports))
    with (directory / "haproxy.log").open("w") as told:
        process = subprocess.Popen([HAPROXY, "-db", "-f", str(file)], stdout=told, stderr=told)
    try:
        until(lambda: process.poll() is not None or _listens(port))
        assert process.poll() is None, (directory / "haproxy.log").read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
