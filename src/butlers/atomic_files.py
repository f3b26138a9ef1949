"""Write files atomically: whole or not at all."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

PRIVATE = 0o600


@contextmanager
def draft_of(
    file: Path, mode: int = PRIVATE, publish: Callable[[Path, Path], None] = os.replace
) -> Iterator[IO[bytes]]:
    """Write a draft beside a file; at the end of the block it is published as the file."""
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.absolute().parent)
    draft = Path(name)
    try:
        with open(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.chmod(mode)
        publish(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def replace_file(file: Path, text: str, mode: int = PRIVATE) -> None:
    """Replace a file: readers see the old text or the new one."""
    with draft_of(file, mode) as stream:
        stream.write(text.encode())


def create_file(file: Path, text: str) -> None:
    """Write a new file in one step; FileExistsError if it exists, even as a broken link."""
    if os.path.lexists(file):
        raise FileExistsError(file)
    # Unlike a rename, a link never replaces what another process has just written.
    with draft_of(file, publish=os.link) as stream:
        stream.write(text.encode())


def flush_directory(directory: Path) -> None:
    """Make a rename in the directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
