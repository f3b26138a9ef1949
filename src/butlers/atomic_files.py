"""Write files atomically: whole or not at all."""

import contextlib
import os
import tempfile
from pathlib import Path

PRIVATE = 0o600


def draft_of(file: Path, text: str, mode: int = PRIVATE) -> Path:
    """Write a temporary file beside a file; the caller renames or removes it."""
    handle, draft = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(draft, mode)
    except OSError:
        os.unlink(draft)
        raise
    return Path(draft)


def replace_file(file: Path, text: str, mode: int = PRIVATE) -> None:
    """Replace a file: readers see the old text or the new one."""
    draft = draft_of(file, text, mode)
    try:
        draft.replace(file)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
        raise


def flush_directory(directory: Path) -> None:
    """Make a rename in the directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
