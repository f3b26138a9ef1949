"""Which project a directory belongs to: told by files alone, quickly, without running git.

A project is a git repository: by the address it is cloned from, else by its own directory. Clones,
worktrees and renamed folders are one project; forks, namesakes and submodules are others. Without
git it is the directory itself, which is known again when it is renamed, where the file system
remembers when a directory was made. Hooks run this: it imports a little of the standard library.
"""

import os
import re
from typing import Any
from urllib.parse import urlsplit

PERSONAL = "personal"
"""What is said in no project: to a butler itself, or in a directory that holds all others."""

_MOST_BYTES = 256 * 1024
_MOST_REPOSITORIES = 3
_PORTS = {"ssh": 22, "https": 443, "http": 80, "git": 9418}
# Where names differ by more than their case, or there are none to differ from.
_CASELESS = ("github.com", "gitlab.com", "bitbucket.org")
_SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_SCP = re.compile(r"(?:[^/@:]+@)?(\[[^\]]+\]|[^/:]{2,}):(?!//)(.+)")
_STATX_BTIME, _AT_FDCWD = 0x800, -100


def identify(directory: str) -> dict[str, Any]:
    """What a project is known by, the surest first, with its name and where it lies."""
    place = os.path.realpath(directory.replace("\0", ""))
    top, common = _repository(place)
    if common is None:
        if place in (os.path.realpath(os.path.expanduser("~")), os.sep):
            return {"keys": [PERSONAL], "name": PERSONAL, "place": place}
        return {"keys": [_own("directory", place)], "name": os.path.basename(place), "place": place}
    keys = _keys(top, common, _MOST_REPOSITORIES)
    remotes = (key.partition(":")[2] for key in keys if key.startswith("remote:"))
    name = os.path.basename(next(remotes, "")) or os.path.basename(top)
    return {"keys": keys, "name": name, "place": top}


def _keys(top: str, common: str, left: int) -> list[str]:
    """The address of a repository, if it has one, and the repository itself.

    One that was cloned from another on this machine is that other.
    """
    address = _address(common)
    own = _own("repository", common)
    if address is None:
        return [own]
    local = _local(address, top)
    if local is None:
        return [f"remote:{_normalised(address)}", own]
    origin = _repository(local)
    if origin[1] is None or origin[1] == common or not left:
        return [f"remote:{local}", own]
    return [*_keys(origin[0], origin[1], left - 1), own]


def _repository(place: str) -> tuple[str, str | None]:
    """The top of the working tree that a place is in, and the directory all its trees share."""
    while True:
        git = os.path.join(place, ".git")
        if os.path.isdir(git):
            return place, git
        if os.path.isfile(git):
            return place, _shared(place, git)
        if _is_bare(place):
            return place, place
        above = os.path.dirname(place)
        if above == place:
            return place, None
        place = above


def _shared(place: str, file: str) -> str | None:
    """What the file that stands for a repository points to: a worktree's, or a submodule's own."""
    pointer = _text(file).strip()
    if not pointer.startswith("gitdir:"):
        return None
    git = os.path.realpath(os.path.join(place, pointer.removeprefix("gitdir:").strip()))
    common = _text(os.path.join(git, "commondir")).strip()
    return os.path.realpath(os.path.join(git, common)) if common else git


def _is_bare(place: str) -> bool:
    return all(os.path.exists(os.path.join(place, name)) for name in ("HEAD", "objects", "refs"))


def _address(common: str) -> str | None:
    """Where a repository is cloned from: `origin`, else its first remote by name."""
    remotes: dict[str, str] = {}
    section, name = "", ""
    for line in _text(os.path.join(common, "config")).splitlines():
        if found := _SECTION.match(line):
            section, name = found[1].lower(), found[2] or ""
            line = line[found.end() :]
        key, _, value = line.partition("=")
        if section == "remote" and key.strip().lower() == "url" and value.strip():
            remotes.setdefault(name, value.strip().strip('"'))
    return remotes.get("origin") or next((remotes[name] for name in sorted(remotes)), None)


def _local(address: str, top: str) -> str | None:
    """The path that an address is, if it is one."""
    if address.startswith("file://"):
        return os.path.realpath(urlsplit(address).path)
    if "://" in address or _SCP.fullmatch(address):
        return None
    return os.path.realpath(os.path.join(top, os.path.expanduser(address)))


def _normalised(address: str) -> str:
    """An address without who asks and how: one for all ways to the same repository."""
    scp = None if "://" in address else _SCP.fullmatch(address)
    parts = urlsplit(f"ssh://{scp[1]}/{scp[2]}" if scp else address)
    host = (parts.hostname or "").lower()
    try:
        port = parts.port
    except ValueError:
        port = None
    if port is not None and port != _PORTS.get(parts.scheme):
        host = f"{host}:{port}"
    path = re.sub(r"/{2,}", "/", parts.path).strip("/").removesuffix(".git").rstrip("/")
    return f"{host}/{path.lower() if host in _CASELESS else path}"


def _own(kind: str, place: str) -> str:
    """A directory by what stays when it is renamed; by its path where nothing does."""
    try:
        number, born = os.stat(place).st_ino, _born(place)
    except OSError:
        born = 0
    return f"{kind}:{number}-{born}" if born else f"{kind}:{place}"


def _born(place: str) -> int:
    """When a directory was made, in nanoseconds; 0 where nobody knows.

    A number alone may be another's tomorrow; with this beside it, it never is.
    """
    born = getattr(os.stat(place), "st_birthtime", None)
    if born is not None:
        return int(born * 1_000_000_000)
    # Only a project that no address tells pays for the import.
    import ctypes  # noqa: PLC0415

    found = (ctypes.c_uint32 * 64)()
    try:
        statx = ctypes.CDLL(None).statx
        if statx(_AT_FDCWD, os.fsencode(place), 0, _STATX_BTIME, ctypes.byref(found)) != 0:
            return 0
    except (OSError, AttributeError):
        return 0
    seconds = ctypes.c_int64.from_buffer(found, 80).value
    return seconds * 1_000_000_000 + found[22] if found[0] & _STATX_BTIME else 0


def _text(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read(_MOST_BYTES)
    except OSError:
        return ""
