"""Read the memories of an export of ours whose importer does not vouch for it.

What a row says of origin, trust, proof and other rows is not read, and what is no memory is left
out: whoever writes a file could write anything there.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial

from pydantic import TypeAdapter

from butlers.memory.flows.portable import ImportLine
from butlers.memory.model import New, NewEpisode, NewFact, NewRule
from butlers.memory.records import INPUT
from butlers.portability.conversations import Unreadable
from butlers.portability.items import Reading, Source
from butlers.portability.native import check_lines, read_rows

_RECORDS: dict[str, type[New]] = {"episode": NewEpisode, "fact": NewFact, "rule": NewRule}
_NOT_READ = {
    "origin", "metadata", "idempotency_key", "source_episode_id", "entity_id", "session_id", "place"
}  # fmt: skip
"""Columns that say whom a memory comes from, or refer to other rows."""


def read_export(source: Source) -> Reading:
    """Read the memories of an export that are current, with their text and time."""
    check_lines(source.file, None)
    others = Counter[str]()
    for line in read_rows(source.file):
        if line.kind in _RECORDS:
            yield f"line {line.number}", partial(_memory, line)
        else:
            others[line.kind] += 1
    for kind, number in others.items():
        yield f"{number} {kind}", _left_out


def _memory(line: ImportLine) -> Iterator[New]:
    row, record = line.row, _RECORDS[line.kind]
    metadata = row.get("metadata") or {}
    is_gone = metadata.get("forgotten") or row.get("quarantined") or row.get("past_by")
    if is_gone or row.get("validity", "active") != "active":
        raise Unreadable("it is not current")
    names = [one.name for one in INPUT[record].values() if one.is_stored]
    given = {name: row[name] for name in names if row.get(name) and name not in _NOT_READ}
    given |= {"said_at": row.get("said_at") or row.get("created_at")}
    given |= {"idempotency_key": str(row["id"]), "metadata": {"butlers": metadata}}
    yield TypeAdapter(record).validate_python(given)


def _left_out() -> Iterator[New]:
    raise Unreadable("only an import that trusts the file brings it (--trusted)")
