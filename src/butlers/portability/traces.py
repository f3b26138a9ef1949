"""Find and erase traces of a person in files of a home: the spool, logs, notes of hooks.

Log lines are overwritten in place with the same length, for other processes append to the file.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from butlers.auth.tokens import TokenFile
from butlers.db.embedded.directories import recorded_place
from butlers.host.home import Home
from butlers.kernel.mentions import Mentions
from butlers.sessions import spool
from butlers.sessions.prompts import lines_of
from butlers.sessions.spool_entries import Arrival, SpoolEntries, chunks

_OVERLAP = 200
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[ntr])")


@dataclass(frozen=True, slots=True)
class Sought:
    """The person or session to look for, and the home to look in."""

    home: Home
    butler: str
    tenant: str
    mentions: Mentions
    session: str = ""
    everything: bool = False

    def tells(self, line: str) -> bool:
        """Whether a line is about the person or session, and not of another tenant."""
        if '"tenant": "' in line and f'"tenant": "{self.tenant}"' not in line:
            return False
        return (bool(self.session) and self.session in line) or self.names(line)

    def names(self, text: str) -> bool:
        """Whether a text, plain or JSON, names the person."""
        # Escapes of JSON would become part of a word.
        plain = _ESCAPED.sub(lambda sign: chr(int(sign[1], 16)) if sign[1] else " ", text)
        return self.mentions.in_text(plain)

    def has_left(self, arrival: Arrival) -> bool:
        """Whether an entry of the spool is the session, or its transcript names the person."""
        if self.everything or arrival.session == self.session:
            return True
        if arrival.transcript is None or not self.mentions.names:
            return False
        before = ""
        for piece in chunks(lines_of(arrival.transcript)):
            if self.names(before + piece):
                return True
            before = piece[-_OVERLAP:]
        return False


@dataclass(frozen=True, slots=True)
class Traces:
    """Entries of the spool and the number of lines of each file that are to be erased."""

    sessions: tuple[Arrival, ...]
    lines: dict[Path, int]

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each kind."""
        counts = {"waiting_session": len(self.sessions), "log_line": sum(self.lines.values())}
        return {kind: number for kind, number in counts.items() if number}


def find(sought: Sought) -> Traces:
    """Find the traces in the files of a home."""
    spooled = SpoolEntries(sought.home.root)
    entries = [*spooled.arrivals(), *spooled.set_aside_before()] if _owns_spool(sought) else []
    meant = [one for one in entries if one.butler == sought.butler and sought.has_left(one)]
    server = recorded_place(sought.home.database_directory)
    notes = (spool.WITHOUT_MEMORY, spool.BEGUN, f"{spool.DIRECTORY}/{spool.REFUSED}")
    files = [*sought.home.logs_directory.glob("*.log*"), *server.glob("server.log*")]
    files += [sought.home.root / name for name in notes]
    lines = {file: len(list(_matching_lines(file, sought))) for file in files if file.is_file()}
    return Traces(tuple(meant), {file: number for file, number in lines.items() if number})


def remove(sought: Sought, traces: Traces) -> None:
    """Remove those entries and overwrite those lines; some may be gone already."""
    spooled = SpoolEntries(sought.home.root)
    for entry in traces.sessions:
        with contextlib.suppress(FileNotFoundError):
            spooled.done(entry)
    for file in traces.lines:
        lines = list(_matching_lines(file, sought))
        with file.open("r+b") as stream:
            for offset, line in lines:
                stream.seek(offset)
                end = b"\n" if line.endswith(b"\n") else b""
                length = len(line) - len(end)
                stream.write(b'{"erased": true}'.ljust(length)[:length] + end)


def _owns_spool(sought: Sought) -> bool:
    """Whether the hooks of the butler, which fill the spool, act for the tenant."""
    file = sought.home.hook_token_file(sought.butler)
    if not file.exists():
        return False
    record = TokenFile(sought.home.tokens_file).verify(
        file.read_text("utf-8").strip(), sought.butler
    )
    return record is not None and record.tenant == sought.tenant


def _matching_lines(file: Path, sought: Sought) -> Iterator[tuple[int, bytes]]:
    """Yield the lines to erase, each with its offset."""
    offset = 0
    with file.open("rb") as stream:
        for line in stream:
            if sought.tells(line.decode("utf-8", "replace")):
                yield offset, line
            offset += len(line)
