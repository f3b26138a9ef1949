"""Identify the project of a directory by its files, without running git.

A project is a git repository, identified by its remote, else by its directory. Clones, worktrees
and renamed folders are one project; forks, namesakes and submodules are others. Without git it is
the directory; renamed, it is recognised if the file system stores when directories were made.
Hooks run this, so it imports very little.
"""

import os
import re
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

PERSONAL = "personal"
"""The project of sessions without one: of the butler itself, or in the home directory."""

_MOST_BYTES = 256 * 1024
_MOST_REPOSITORIES = 3
_PORTS = {"ssh": 22, "https": 443, "http": 80, "git": 9418}
# Hosts that ignore the case of names.
_CASELESS = ("github.com", "gitlab.com", "bitbucket.org")
_SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_SCP = re.compile(r"(?:[^/@:]+@)?(\[[^\]]+\]|[^/:]{2,}):(?!//)(.+)")
_STATX_BTIME, _AT_FDCWD = 0x800, -100


def identify(directory: str) -> dict[str, Any]:
    """Return the keys that identify a project, the surest first, its name and its directory."""
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
    """List the keys of a repository: of its remote or the local repository cloned, and its own."""
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


def _repository(path: str) -> tuple[str, str | None]:
    """Return the root of the working tree around a directory, and the git directory it shares."""
    while True:
        git = os.path.join(path, ".git")
        if os.path.isdir(git):
            return path, git
        if os.path.isfile(git):
            return path, _shared(path, git)
        if all(os.path.exists(os.path.join(path, name)) for name in ("HEAD", "objects", "refs")):
            return path, path  # a bare repository
        above = os.path.dirname(path)
        if above == path:
            return path, None
        path = above


def _shared(path: str, file: str) -> str | None:
    """Return the git directory that a `.git` file points to, of a worktree or a submodule."""
    pointer = _text(file).strip()
    if not pointer.startswith("gitdir:"):
        return None
    git = os.path.realpath(os.path.join(path, pointer.removeprefix("gitdir:").strip()))
    common = _text(os.path.join(git, "commondir")).strip()
    return os.path.realpath(os.path.join(git, common)) if common else git


def _address(common: str) -> str | None:
    """Return the address a repository was cloned from: `origin`, else its first remote by name."""
    remotes: dict[str, str] = {}
    section, name = "", ""
    for line in _text(os.path.join(common, "config")).splitlines():
        if header := _SECTION.match(line):
            section, name = header[1].lower(), header[2] or ""
            line = line[header.end() :]
        key, _, value = line.partition("=")
        if section == "remote" and key.strip().lower() == "url" and value.strip():
            remotes.setdefault(name, value.strip().strip('"'))
    return remotes.get("origin") or next((remotes[name] for name in sorted(remotes)), None)


def _local(address: str, top: str) -> str | None:
    """Return the path that an address is, or None."""
    if address.startswith("file://"):
        return os.path.realpath(urlsplit(address).path)
    if "://" in address or _SCP.fullmatch(address):
        return None
    return os.path.realpath(os.path.join(top, os.path.expanduser(address)))


def _normalised(address: str) -> str:
    """Return an address without user and protocol, the same for all URLs of a repository."""
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


def _own(kind: str, path: str) -> str:
    """Return a key that stays when a directory is renamed; its path where nothing does."""
    born = 0
    with suppress(OSError):
        number, born = os.stat(path).st_ino, _born(path)
    return f"{kind}:{number}-{born}" if born else f"{kind}:{path}"


def _born(path: str) -> int:
    """Return when a directory was made, in nanoseconds; 0 if unknown. Inodes alone are reused."""
    born = getattr(os.stat(path), "st_birthtime", None)
    if born is not None:
        return int(born * 1_000_000_000)
    # Imported only for projects without a remote.
    import ctypes  # noqa: PLC0415

    status = (ctypes.c_uint32 * 64)()
    try:
        statx = ctypes.CDLL(None).statx
        if statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, ctypes.byref(status)) != 0:
            return 0
    except (OSError, AttributeError):
        return 0
    seconds = ctypes.c_int64.from_buffer(status, 80).value
    return seconds * 1_000_000_000 + status[22] if status[0] & _STATX_BTIME else 0


def _text(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read(_MOST_BYTES)
    except OSError:
        return ""
