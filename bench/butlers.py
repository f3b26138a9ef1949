"""What a butler costs a home that has many: processor time of ten and of a hundred.

    python -m bench butlers [few] [many]

A real `butlers up`: its own process and every process of the embedded server, counted to the end
of each phase. The first start makes the databases, the second finds them; then the home idles for
a while. A home of many may cost at most three times as much per butler. As much of what ten cost is
what any home does, what every further butler takes is shown as well.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from butlers.db.embedded.liveness import processes_over, read_pid_file
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.host.home import Home
from butlers.host.status import running

FEW, MANY = 10, 100
MOST = 3.0
START_SECONDS, SETTLE_SECONDS, IDLE_SECONDS = 900.0, 15.0, 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one home of so many butlers took: seconds of the clock, and of processors."""

    butlers: int
    first_wall: float
    first: float
    second_wall: float
    second: float
    idle: float
    connections: int

    @property
    def line(self) -> str:
        """One row of the table."""
        each = [f"{cpu:7.1f} s {cpu / self.butlers:7.3f}" for cpu in (self.first, self.second)]
        return (
            f"{self.butlers:7} {self.first_wall:6.1f} s {each[0]} {self.second_wall:6.1f} s "
            f"{each[1]} {self.idle:6.2f} s {self.idle / self.butlers:7.4f} {self.connections:5}"
        )


def main(options: Sequence[str]) -> int:
    """Print what both homes cost, and whether every ratio held."""
    sizes = [int(given) for given in options] or [FEW, MANY]
    print("butlers    first start, cpu, each      second start, cpu, each    idle minute, each  pg")
    few, many = (_measured(size) for size in sizes)
    ratios = []
    for phase in ("first", "second", "idle"):
        some, all_ = getattr(few, phase), getattr(many, phase)
        further = (all_ - some) / (many.butlers - few.butlers)
        ratios.append((all_ / many.butlers) / (some / few.butlers))
        print(f"{phase}: {ratios[-1]:.2f} times per butler, at most {MOST:g}; {further:.3f} s each "
              f"beyond {few.butlers}")  # fmt: skip
    return 0 if max(ratios) <= MOST else 1


def _measured(size: int) -> Cost:
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        Path(place).chmod(0o755)
        home = Home(Path(place) / "home")
        for number in range(size):
            home.create_butler(f"butler_{number:03}")
        first, _, _ = _phases(home, 0.0)
        second, idle, connections = _phases(home, IDLE_SECONDS)
        cost = Cost(size, *first, *second, idle * 60 / IDLE_SECONDS, connections)
        print(cost.line, flush=True)
        return cost


def _phases(home: Home, idle: float) -> tuple[tuple[float, float], float, int]:
    """Seconds until it is up, processor time until then, and while it idles afterwards."""
    began = time.monotonic()
    with _up(home) as daemon:
        wall = time.monotonic() - began
        time.sleep(SETTLE_SECONDS)
        started = _spent(home, daemon)
        time.sleep(idle)
        return (wall, started), _spent(home, daemon) - started, len(_server(home))


@contextmanager
def _up(home: Home) -> Iterator[int]:
    """The process of a home that is up."""
    command = [sys.executable, "-m", "butlers", "up", "--home", str(home.root), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + START_SECONDS
    try:
        while running(home) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the butlers did not start")
            time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _spent(home: Home, daemon: int) -> float:
    """Processor time so far; of what has ended, as those that started it have counted it."""
    return sum(_seconds(pid, pid in (daemon, _first(home))) for pid in {daemon, *_server(home)})


def _server(home: Home) -> set[int]:
    return processes_over(_data(home)) or set()


def _data(home: Home) -> Path:
    return EmbeddedPostgres(home.database_directory).data_directory.resolve()


def _first(home: Home) -> int:
    """The server's own process, which counts those of its children that have ended."""
    listed = read_pid_file(_data(home))
    return listed.pid if listed else 0


def _seconds(pid: int, with_children: bool) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(ticks) for ticks in fields[11 : 15 if with_children else 13]) / _TICKS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
