"""Whose a cluster is: the one directory that may use it, by an identity that both keep.

The cluster's record also says where that directory lies. One that was moved is no longer there,
so the cluster follows it; a copy finds the original still there, and is refused.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from butlers.db.embedded.directories import location
from butlers.errors import Unavailable
from butlers.files import replace_file
from butlers.ids import new_id

_FILE = "identity"


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """What tells one cluster from all others, and the directory it belongs to."""

    id: str
    directory: Path


def check(directory: Path, place: Path) -> None:
    """Unavailable where the cluster in `place` is not that of `directory`."""
    cluster, ours = read(place), read(directory)
    if cluster is None:
        return
    if ours is not None and ours.id != cluster.id:
        raise _foreign(directory, place)
    if not _is_same(cluster.directory, directory) and location(cluster.directory) == place:
        raise _copied(directory.parent, cluster.directory.parent, place)


def claim(directory: Path, place: Path) -> None:
    """The cluster in `place` is that of `directory` from now on; Unavailable where it may not be.

    Called by whoever has the turn at the cluster, so that of two only one can.
    """
    check(directory, place)
    known = read(place)
    if known is None or not _is_same(known.directory, directory):
        known = ClusterIdentity(known.id if known else str(new_id()), directory)
        _write(place, known)
    if read(directory) is None:
        _write(directory, known)


def read(place: Path) -> ClusterIdentity | None:
    """The identity kept in a directory; None where nobody has claimed it yet."""
    try:
        told = json.loads((place / _FILE).read_text(encoding="utf-8"))
        return ClusterIdentity(str(told["id"]), Path(told["directory"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise Unavailable(
            f"{place / _FILE} is damaged; if {place} belongs to no other home, delete it"
        ) from None


def _foreign(directory: Path, place: Path) -> Unavailable:
    return Unavailable(
        f"the database in {place} is that of another home than {directory.parent}, which was "
        f"copied here without its own; delete {directory / 'location'} to begin with an empty "
        "database, or bring it here by `butlers backup` and, into an empty home, `butlers restore`"
    )


def _copied(copy: Path, original: Path, place: Path) -> Unavailable:
    return Unavailable(
        f"{copy} is a copy of {original}, whose database in {place} it would share; for one with "
        f"data of its own run `butlers backup FILE --home {original}`, then `butlers restore FILE` "
        f"into an empty home. If it is to take the original's place, move {original} away first"
    )


def _is_same(one: Path, other: Path) -> bool:
    """Whether both are the same directory of the same home, by whichever path it is reached."""
    try:
        return one.name == other.name and os.path.samefile(one.parent, other.parent)
    except FileNotFoundError:
        return False


def _write(place: Path, identity: ClusterIdentity) -> None:
    told = {"id": identity.id, "directory": str(identity.directory)}
    replace_file(place / _FILE, json.dumps(told) + "\n")
