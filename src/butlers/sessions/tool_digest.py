"""The file in which a hook keeps the digest of what is known about commands, files and errors.

One for each directory that agents work in, since projects know different things; at most 256.
"""

import os
import time
import zlib

BELIEVED_SECONDS = 60.0
"""How long a digest is believed before the daemon is asked again."""
_MAX_CHARACTERS = 1_000_000


def read(home: str, butler: str, directory: str) -> str | None:
    """Return the hashes of a digest; None if there is none, or only an old one."""
    try:
        with open(_path(home, butler, directory), encoding="utf-8") as file:
            head, _, hashes = file.read(_MAX_CHARACTERS).partition("\n")
        made, _, of = head.partition(" ")
        is_recent = 0 <= time.monotonic() - float(made) < BELIEVED_SECONDS
    except (OSError, ValueError):
        return None
    return hashes if is_recent and of == repr(directory) else None


def write(home: str, butler: str, directory: str, hashes: str) -> None:
    """Write a digest at once: several hooks may run at a time."""
    path = _path(home, butler, directory)
    new = f"{path}.{os.getpid()}"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(f"{time.monotonic()} {directory!r}\n{hashes}")
    os.replace(new, path)


def _path(home: str, butler: str, directory: str) -> str:
    number = zlib.crc32(directory.encode("utf-8", "replace")) % 256
    return os.path.join(home, "hooks", f"{butler}.{number}.digest")
