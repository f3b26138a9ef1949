"""Change the product on purpose, one meaning at a time, and see whether a test notices.

`make mutants` runs every mutation of the two lists beside this file and prints the survivors; they
may be at most three in a hundred, each with a written reason. A mutation is made in a copy of the
source, never in the checkout, and must leave a program that starts: one that breaks the schema or
an import is invalid and proves nothing. All named tests run once without any mutation first.

Why lists of our own: half of what can go wrong here is SQL, which no tool for Python mutates.
For the Python half, mutmut 3.8 does not run with pytest 9.2 (it reads `item._nodeid`, which is
gone), and cosmic-ray 8.7 rewrites the checkout and runs one command for each of the thousands of
operators it finds, with a database server to start every time. Both change operators; what is
listed changes what the product promises, and names the tests that keep the promise.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS, SOURCE = HERE.parent, HERE.parents[1] / "src"
LISTS = (HERE / "python.toml", HERE / "sql.toml")
MOST_SURVIVORS = 0.03
_PATIENCE_SECONDS = 600
_SECTION = re.compile(r"^-- (?:\w+|\{\w+\}) --$", re.M)


class Fate(StrEnum):
    """What became of a mutation."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    INVALID = "INVALID"


class NotThere(Exception):
    """A mutation that no longer fits the source."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of meaning: where, what, and which tests should notice.

    The old text stands exactly once in its file, or in the named section of a file of SQL; with
    `after`, it is the first one behind that text, which then stands exactly once.
    """

    meaning: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    section: str = ""
    after: str = ""
    reason: str = ""

    @property
    def path(self) -> Path:
        """The file below the source, wherever that is."""
        return Path("butlers", self.file)

    def applied(self, text: str) -> str:
        """The file's text with the mutation in it."""
        start, end = self._range(text)
        if self.after:
            start = self._only(text, self.after, start, end) + len(self.after)
            place = text.find(self.old, start, end)
        else:
            place = self._only(text, self.old, start, end)
        if place < 0:
            raise NotThere(f"{self.file}: {self.old!r} does not follow {self.after!r}")
        return text[:place] + self.new + text[place + len(self.old) :]

    def _range(self, text: str) -> tuple[int, int]:
        if not self.section:
            return 0, len(text)
        heading = f"-- {self.section} --"
        start = self._only(text, heading, 0, len(text)) + len(heading)
        following = _SECTION.search(text, start)
        return start, following.start() if following else len(text)

    def _only(self, text: str, wanted: str, start: int, end: int) -> int:
        found = text.count(wanted, start, end)
        if found != 1:
            raise NotThere(f"{self.file}: {wanted!r} stands {found} times, not once")
        return text.index(wanted, start, end)


def load() -> list[Mutant]:
    """Every mutation of the lists."""
    tables = [table for file in LISTS for table in tomllib.loads(file.read_text())["mutant"]]
    return [Mutant(**{**table, "tests": tuple(table["tests"])}) for table in tables]


@contextmanager
def mutated(mutant: Mutant | None) -> Iterator[Path]:
    """A copy of the source with the mutation, or with none, in it."""
    with tempfile.TemporaryDirectory(prefix="butlers-mutant-") as directory:
        source = Path(directory, "src")
        # With what is compiled of it: what is mutated is newer than that, and compiled again.
        shutil.copytree(SOURCE, source)
        if mutant is not None:
            file = source / mutant.path
            file.write_text(mutant.applied(file.read_text()))
        yield source


def noticed(source: Path, tests: Sequence[str], workers: int = 0) -> tuple[Fate, str]:
    """What the tests say about a source, and their last words."""
    how = f"-x --tb=no -p no:cacheprovider -n {workers} --dist loadfile".split()
    command = [sys.executable, "-m", "pytest", *how]
    try:
        done = subprocess.run(
            [*command, *(str(TESTS / test) for test in tests)],
            cwd=TESTS.parent,
            env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Fate.KILLED, "the tests never ended"
    words = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode == 0:
        return Fate.SURVIVED, ""
    failed = next((word for word in words if word.startswith("FAILED ")), None)
    return (Fate.KILLED, failed) if failed else (Fate.INVALID, "\n".join(words[-5:]))


def fate(mutant: Mutant) -> tuple[Fate, str]:
    """What becomes of one mutation."""
    with mutated(mutant) as source:
        return noticed(source, mutant.tests)


def told(mutant: Mutant, end: Fate, words: str) -> None:
    """One line on what became of a mutation, more where somebody has to look."""
    by = f" ({words.split(' - ')[0].split('::')[-1]})" if end is Fate.KILLED else ""
    print(f"{end:9} {mutant.file}: {mutant.meaning}{by}", flush=True)
    if end is Fate.SURVIVED:
        print(f"          {mutant.reason or 'no reason is written'}", flush=True)
    elif end is Fate.INVALID:
        print(words, flush=True)
    elif mutant.reason:
        print("          a test notices it now: strike its reason from the list", flush=True)


def judged(ends: Sequence[tuple[Mutant, Fate]]) -> int:
    """The summary, and the status to exit with."""
    counts = Counter(end for _, end in ends)
    unexplained = [m for m, end in ends if end is Fate.SURVIVED and not m.reason]
    share = counts[Fate.SURVIVED] / max(1, len(ends))
    print(
        f"{len(ends)} mutations: {counts[Fate.KILLED]} killed, {counts[Fate.SURVIVED]} survived "
        f"({share:.1%}, {len(unexplained)} without a reason), {counts[Fate.INVALID]} invalid"
    )
    return 1 if counts[Fate.INVALID] or unexplained or share > MOST_SURVIVORS else 0


def main() -> int:
    """Run what was asked for; 1 where a survivor has no reason or there are too many."""
    options = argparse.ArgumentParser(prog="make mutants", description=__doc__.splitlines()[0])
    options.add_argument("-n", type=int, default=2, help="how many run at once")
    options.add_argument("-k", default="", help="only those whose file or meaning has this text")
    wanted = options.parse_args()
    mutants = [one for one in load() if wanted.k in f"{one.file}: {one.meaning}"]
    with mutated(None) as source:
        named = sorted({test for one in mutants for test in one.tests})
        end, words = noticed(source, named, wanted.n)
    if end is not Fate.SURVIVED:
        print(f"the tests fail without any mutation; mend that first\n{words}")
        return 1
    ends = []
    with ThreadPoolExecutor(wanted.n) as pool:
        running = {pool.submit(fate, one): one for one in mutants}
        for done in as_completed(running):
            told(running[done], *done.result())
            ends.append((running[done], done.result()[0]))
    return judged(ends)


if __name__ == "__main__":
    sys.exit(main())
