"""Rounds of the chaos test: each kills something, starts again and looks at what is there."""

import asyncio
import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import asyncpg

from butlers.db.dump import restore
from butlers.db.provision import provision
from butlers.host.home import Home
from butlers.settings.names import database_name
from chaos.disk import Disk, disk
from chaos.home import BUTLER, DoomedHome
from chaos.journal import ABSENT, Lost
from interfaces.furnished import furnished_home

A_HOME = 25
"""After so many rounds a new home is begun, so that checking it stays quick."""
OLD = Path(__file__).parents[1] / "data" / "database_mem_034_core_007.dump.gz"
_MOST_STEPS = {"write": 900, "command": 160, "restore": 220, "upgrade": 120}


@dataclass
class Figures:
    """What the rounds came to."""

    rounds: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    acknowledged: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The figures as they are written down."""
        return {
            "rounds": sum(self.rounds.values()),
            "of": dict(sorted(self.rounds.items())),
            "kills": dict(sorted(self.kills.items())),
            "acknowledged": sum(self.acknowledged.values()),
            "acknowledged_by_kind": dict(sorted(self.acknowledged.items())),
            "lost": sum("; it may be" in line for line in self.findings),
            "findings": len(self.findings),
            "seconds": round(self.seconds),
        }


class Rounds:
    """Rounds over one home after another, chosen by a seed."""

    def __init__(self, seed: int, kinds: Collection[str] = ()) -> None:
        """`kinds`: only these, by name."""
        self.chance, self.figures = Random(seed), Figures()
        self._upgraded: tuple[list[str], dict[str, int]] | None = None
        self._kinds: dict[Callable[[DoomedHome], list[str]], int] = {
            self.statement: 30, self.moment: 15, self.server: 10, self.undo: 8, self.erase: 8,
            self.bring: 8, self.consolidate: 6, self.backup: 6, self.restore: 4, self.upgrade: 5,
            self.power: 6,
        }  # fmt: skip
        if kinds:
            self._kinds = {kind: 1 for kind in self._kinds if kind.__name__ in kinds}
        self._disk: Disk | None = None
        self._on_disk: DoomedHome | None = None

    def run(self, count: int, tell: Callable[[str], None] = print) -> Figures:
        """Run so many rounds; stop at the first that finds something."""
        with disk() if self.power in self._kinds else nullcontext() as self._disk:
            self._run(count, tell)
        return self.figures

    def _run(self, count: int, tell: Callable[[str], None]) -> None:
        began = time.monotonic()
        while (done := sum(self.figures.rounds.values())) < count:
            with new_home(self.chance) as home:
                for _ in range(min(A_HOME, count - done)):
                    self._one(home)
                    if self.figures.findings:
                        break
                self.figures.acknowledged += home.journal.acknowledged
            if self._on_disk is not None:
                self.figures.acknowledged += self._on_disk.journal.acknowledged
                self._on_disk.journal.acknowledged.clear()
            self.figures.seconds = time.monotonic() - began
            tell(self._told())
            if self.figures.findings:
                break

    def _one(self, home: DoomedHome) -> None:
        [kind] = self.chance.choices(list(self._kinds), self._kinds.values())
        began = time.monotonic()
        try:
            faults = kind(home) + home.faults()
        except Exception as error:  # noqa: BLE001  what breaks a round is a finding of it
            faults = [f"{type(error).__name__}: {error}"]
        self.figures.rounds[kind.__name__] += 1
        if os.environ.get("CHAOS_TIMES"):
            print(kind.__name__, f"{time.monotonic() - began:.2f}", flush=True)
        self.figures.findings += [f"{kind.__name__}: {fault}" for fault in faults]

    def _told(self) -> str:
        figures = self.figures.as_dict()
        return (
            f"{figures['rounds']} rounds, {sum(self.figures.kills.values())} kills, "
            f"{figures['acknowledged']} acknowledged, {figures['lost']} lost, "
            f"{figures['findings']} findings, {figures['seconds']} s"
        )

    # Daemons

    def statement(self, home: DoomedHome) -> list[str]:
        """Kill a daemon at one of its statements while clients write."""
        ready = home.write_until_killed(self._step("write"), seconds=8.0)
        self.figures.kills["daemon at a statement" if ready else "daemon at its start"] += 1
        return []

    def moment(self, home: DoomedHome) -> list[str]:
        """Kill a daemon at any time while clients write."""
        home.write_until_killed(0, seconds=self.chance.uniform(0.05, 2.5))
        self.figures.kills["daemon at a moment"] += 1
        return []

    def server(self, home: DoomedHome) -> list[str]:
        """Kill the database server under a daemon that clients write to, and then the daemon."""
        home.write_until_killed(
            0, seconds=self.chance.uniform(0.1, 3.0), meanwhile=self.chance.uniform(0.05, 1.0)
        )
        self.figures.kills["database server"] += 1
        self.figures.kills["daemon at a moment"] += 1
        return []

    def power(self, home: DoomedHome) -> list[str]:
        """Cut the power of a machine of its own, whose disk then lacks what was not synced."""
        if self._disk is None:
            return self.moment(home)
        doomed = self._on_disk = self._on_disk or on_disk(self._disk, self.chance)
        doomed.write_until_killed(
            0, seconds=self.chance.uniform(0.1, 3.0), end=partial(_power_off, doomed, self._disk)
        )
        self.figures.kills["power"] += 1
        faults = doomed.faults()
        doomed.server.stop()
        return faults

    # Commands

    def undo(self, home: DoomedHome) -> list[str]:
        """Kill `butlers undo` of an episode with the facts drawn from it; then run it."""
        if not home.sources:
            return self.moment(home)
        episode, ids = home.sources.pop()
        known = home.journal.allowed
        moved = {("fact", id): "retracted" for id in ids if known["fact", id] == {"active"}}
        moved |= {("episode", episode): "forgotten"}
        what = ("memory", "undo", "--episode", episode, "--apply")
        return self._twice(home, "undo", moved, *what)

    def erase(self, home: DoomedHome) -> list[str]:
        """Kill `butlers erase` of somebody; then run it."""
        home.server.start()
        facts = asyncio.run(_named(home.dsn()))
        if not facts:
            return self.moment(home)
        name = self.chance.choice(sorted(facts))
        moved = {("fact", id): ABSENT for id in facts[name] if ("fact", id) in home.journal.allowed}
        return self._twice(home, "erase", moved, "erase", "--about", name, "--yes")

    def bring(self, home: DoomedHome) -> list[str]:
        """Kill `butlers import` of all there is into a new butler; then run it."""
        file, name = home.home.root.parent / "memories.jsonl", "copy"
        faults = home.carried_out("export", file)
        home.home.create_butler(name)
        with home.deciding_for(name):
            what = ("import", file, "--trusted", "--butler", name)
            faults += self._twice(home, "import", {}, *what)
        with home.quiet() as dsn:
            wanted, found = (asyncio.run(_count(one)) for one in (dsn, home.dsn(name)))
            faults += home.disagreements(name)
        if found != wanted:
            faults.append(f"of {wanted} facts {found} were imported")
        _remove(home, name)
        return faults

    def consolidate(self, home: DoomedHome) -> list[str]:
        """Kill a sweep, whose lease goes on; kill a consolidation and a cleanup, and run them."""
        self._kill(home, "decay_sweep", "jobs", "run", "decay_sweep")
        faults = []
        for what in ("consolidate", "cleanup"):
            faults += self._twice(home, what, {}, "memory", what)
        return faults

    def backup(self, home: DoomedHome) -> list[str]:
        """Kill a backup: there is no file, or a whole one; then make one."""
        file = home.home.root.parent / "backup.zip"
        file.unlink(missing_ok=True)
        self._kill(home, "backup", "backup", file)
        faults = home.carried_out("verify", file) if file.exists() else []
        file.unlink(missing_ok=True)
        return faults + home.carried_out("backup", file) + home.carried_out("verify", file)

    def restore(self, home: DoomedHome) -> list[str]:
        """Kill a restore at a statement or a moment; run it again, and check what it restored."""
        file = home.home.root.parent / "backup.zip"
        file.unlink(missing_ok=True)
        faults = home.carried_out("backup", file)
        with elsewhere(home) as other:
            self._kill(other, "restore", "restore", file)
            faults += other.carried_out("restore", file)
            other.journal.allowed = home.journal.allowed
            faults += other.faults()
            other.server.stop()
        return faults

    def upgrade(self, home: DoomedHome) -> list[str]:
        """Kill the upgrade of an older database; run it again: it leaves what others left.

        Some rows of that database were made by hand, without events.
        """
        name = "older"
        home.server.start()
        asyncio.run(_older(home, name))
        home.home.create_butler(name)
        self._kill(home, "upgrade", "memory", "stats", "--butler", name)
        faults = home.carried_out("memory", "stats", "--butler", name)
        with home.quiet():
            found = sorted(home.disagreements(name)), asyncio.run(_sizes(home.dsn(name)))
        _remove(home, name)
        self._upgraded = self._upgraded or found
        if found != self._upgraded:
            faults.append(f"one upgrade left {self._upgraded}, another {found}")
        return faults

    def _step(self, what: str) -> int:
        return self.chance.randint(1, _MOST_STEPS[what])

    def _kill(self, home: DoomedHome, what: str, *arguments: object) -> int:
        """Start a command that is killed at a statement or a moment, if it is not done before."""
        most = what if what in _MOST_STEPS else "command"
        if self.chance.random() < 0.7:
            code = home.command(*arguments, step=self._step(most))
        else:
            code = home.command(*arguments, seconds=self.chance.uniform(0.1, 1.5))
        if code < 0:
            self.figures.kills[what] += 1
        return code

    def _twice(
        self, home: DoomedHome, what: str, moved: dict[tuple[str, str], str], *arguments: object
    ) -> list[str]:
        """Kill a command and look; then run it to its end."""
        try:
            with home.journal.moving(what, moved):
                if self._kill(home, what, *arguments) != 0:
                    raise Lost
        except Lost:
            pass
        with home.quiet() as dsn:
            faults = home.journal.faults(dsn)
        with home.journal.moving(what, moved):
            faults += home.carried_out(*arguments)
        return faults


@contextmanager
def new_home(chance: Random) -> Iterator[DoomedHome]:
    """A home with an empty database."""
    with furnished_home(BUTLER) as home:
        doomed = DoomedHome(home, chance)
        doomed.server.start()
        try:
            yield doomed
        finally:
            doomed.server.stop()


def on_disk(disk: Disk, chance: Random) -> DoomedHome:
    """A home on a disk of its own, whose server syncs what it must."""
    home = Home(disk.root / "home")
    with furnished_home(BUTLER) as furnished:
        subprocess.run(["cp", "-a", str(furnished.root), str(home.root)], check=True)
    settings = home.database_directory / "data" / "postgresql.auto.conf"
    kept = [line for line in settings.read_text().splitlines(True) if "= off" not in line]
    with settings.open("w") as file:  # in place: it is the server's own
        file.writelines(kept)
    subprocess.run(["sync", "-f", str(home.root)], check=True)
    return DoomedHome(home, chance)


def _power_off(home: DoomedHome, disk: Disk) -> None:
    home.kill_server()
    disk.cut()


@contextmanager
def elsewhere(home: DoomedHome) -> Iterator[DoomedHome]:
    """Another home, which does not exist yet, beside the first."""
    root = home.home.root.parent / "elsewhere"
    root.mkdir(0o711)
    other = object.__new__(DoomedHome)
    vars(other).update(vars(home))
    other.home, other.heads = Home(root), []
    other.server = type(home.server)(other.home.database_directory)
    try:
        yield other
    finally:
        shutil.rmtree(root)


async def _named(dsn: str) -> dict[str, list[str]]:
    """People of whom only facts are known, with these."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            "select subject, array_agg(id::text) as ids from facts where subject like 'Person %' "
            "and tenant_id = 'default' group by 1 having bool_and(source_episode_id is null)"
        )
    finally:
        await connection.close()
    return {row["subject"]: row["ids"] for row in rows}


async def _count(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval("select count(*) from facts"))
    finally:
        await connection.close()


async def _sizes(dsn: str) -> dict[str, int]:
    """How many rows each table of the memory has, but for what passing time adds."""
    connection = await asyncpg.connect(dsn)
    try:
        return {
            table: await connection.fetchval(f"select count(*) from {table}")
            for table in ("episodes", "facts", "rules", "entities", "memory_links", "index_words")
        }
    finally:
        await connection.close()


async def _older(home: DoomedHome, butler: str) -> None:
    """Lay down the database of a version before this one."""
    name = database_name(butler)
    await provision(home.server.dsn(), name, sign_in=True)
    await restore(home.server.dsn(name), iter([gzip.decompress(OLD.read_bytes())]), owners=True)


def _remove(home: DoomedHome, butler: str) -> None:
    """Take a butler away, which no daemon shall start."""
    asyncio.run(_dropped(home.server.dsn(), database_name(butler)))
    shutil.rmtree(home.home.butler_directory(butler))


async def _dropped(dsn: str, name: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f'drop database "{name}" with (force)')
    finally:
        await connection.close()


def main(options: list[str]) -> int:
    """Run N rounds by a seed and write the figures: `[N] [SEED] [FILE]`."""
    count, seed, file = [*options, *("30", "1", "")[len(options) :]]
    rounds = Rounds(int(seed))

    def tell(words: str) -> None:
        print(words, flush=True)
        if file:
            told = {"seed": int(seed), **rounds.figures.as_dict()}
            Path(file).write_text(json.dumps(told, indent=1) + "\n")

    figures = rounds.run(int(count), tell)
    for line in figures.findings:
        print(line)
    return int(bool(figures.findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
