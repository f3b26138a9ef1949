"""Files of a home that may tell of somebody: what waits in the spool, logs, notes of hooks.

Log lines are overwritten where they stand, at their length: whoever writes to the file goes on.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from butlers.auth.token_file import TokenFile
from butlers.db.embedded.directories import recorded_place
from butlers.host.home import Home
from butlers.kernel.mentions import Mentions
from butlers.sessions import spool
from butlers.sessions.spool_entries import Arrival, SpoolEntries, pieces

_OVERLAP = 200
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[ntr])")


@dataclass(frozen=True, slots=True)
class Sought:
    """Whose traces are looked for, and in which files."""

    home: Home
    butler: str
    tenant: str
    mentions: Mentions
    session: str = ""
    everything: bool = False

    def tells(self, line: str) -> bool:
        """Whether a line tells of it, and is not another's."""
        if '"tenant": "' in line and f'"tenant": "{self.tenant}"' not in line:
            return False
        return (bool(self.session) and self.session in line) or self.names(line)

    def names(self, text: str) -> bool:
        """Whether a text, of JSON or not, names somebody who is looked for."""
        # A line's end is written as two signs in JSON, which would lengthen a word.
        return self.mentions.in_text(_ESCAPED.sub(_sign, text))

    def has_left(self, arrival: Arrival) -> bool:
        """Whether a session that waits is looked for, or names somebody who is."""
        return self.everything or arrival.session == self.session or self._is_named_in(arrival)

    def _is_named_in(self, arrival: Arrival) -> bool:
        if arrival.transcript is None or not self.mentions.names:
            return False
        before = ""
        for piece in pieces(arrival.transcript):
            if self.names(before + piece):
                return True
            before = piece[-_OVERLAP:]
        return False


@dataclass(frozen=True, slots=True)
class Traces:
    """What files of a home tell of somebody."""

    sessions: tuple[Arrival, ...]
    lines: dict[Path, int]

    @property
    def counts(self) -> dict[str, int]:
        """How much there is of each."""
        told = {"waiting_session": len(self.sessions), "log_line": sum(self.lines.values())}
        return {kind: number for kind, number in told.items() if number}


def find(sought: Sought) -> Traces:
    """What the files of a home tell of whom is looked for."""
    waiting = SpoolEntries(sought.home.root)
    left = [*waiting.arrivals(), *waiting.set_aside_before()] if _speaks(sought) else []
    found = [one for one in left if one.butler == sought.butler and sought.has_left(one)]
    lines = {
        file: sum(1 for _ in _matching_lines(file, sought)) for file in _line_files(sought.home)
    }
    return Traces(tuple(found), {file: number for file, number in lines.items() if number})


def remove(sought: Sought, traces: Traces) -> None:
    """Take those files and lines away; what is gone already is no fault."""
    waiting = SpoolEntries(sought.home.root)
    for one in traces.sessions:
        with contextlib.suppress(FileNotFoundError):
            waiting.done(one)
    for file in traces.lines:
        _overwrite(file, sought)


def _speaks(sought: Sought) -> bool:
    """Whether the hooks of a butler, who fill the spool, speak for the tenant."""
    file = sought.home.hook_token_file(sought.butler)
    if not file.exists():
        return False
    record = TokenFile(sought.home.tokens_file).verify(
        file.read_text("utf-8").strip(), sought.butler
    )
    return record is not None and record.tenant == sought.tenant


def _sign(escaped: re.Match[str]) -> str:
    return chr(int(escaped[1], 16)) if escaped[1] else " "


def _line_files(home: Home) -> list[Path]:
    """The files of a home whose lines may tell of somebody."""
    server = recorded_place(home.database_directory)
    notes = (home.root / spool.DIRECTORY / spool.REFUSED, home.root / spool.WITHOUT_MEMORY)
    logs = (*home.logs_directory.glob("*.log*"), *server.glob("server.log*"))
    return [file for file in (*sorted(logs), *notes) if file.is_file()]


def _matching_lines(file: Path, sought: Sought) -> Iterator[tuple[int, bytes]]:
    """Where the lines stand that tell of whom is looked for."""
    place = 0
    with file.open("rb") as stream:
        for line in stream:
            if sought.tells(line.decode("utf-8", "replace")):
                yield place, line
            place += len(line)


def _overwrite(file: Path, sought: Sought) -> None:
    found = list(_matching_lines(file, sought))
    with file.open("r+b") as stream:
        for place, line in found:
            stream.seek(place)
            end = b"\n" if line.endswith(b"\n") else b""
            length = len(line) - len(end)
            stream.write(b'{"erased": true}'.ljust(length)[:length] + end)
