"""A disk that loses what was not synced when the power is cut.

It is a file with ext4 on it. Programs write to the system's page cache; only what was synced, or
what the kernel wrote back by itself, is in the file. A copy of the file at the moment of the cut
is what a machine finds on its disk when the power is back.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SIZE = 700 * 2**20


class Disk:
    """A mounted file; `cut` puts what was on the disk in its place."""

    def __init__(self, directory: Path) -> None:
        self._image, self.root = directory / "disk", directory / "mounted"
        with self._image.open("wb") as file:
            file.truncate(_SIZE)
        _run("mkfs.ext4", "-q", "-F", self._image)
        self.root.mkdir()
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", self._image, self.root)

    def cut(self) -> None:
        """Forget what is not on the disk; whoever wrote to it must have been killed."""
        found = self._image.with_name("found")
        _run("cp", "--sparse=always", self._image, found)
        self.unmount()
        found.rename(self._image)
        self._mount()

    def unmount(self) -> None:
        """Take the disk away, also from those who are about to end."""
        _run("umount", "--lazy", self.root)


@contextmanager
def disk() -> Iterator[Disk | None]:
    """A disk of one's own; None where nobody may mount one."""
    directory = Path(tempfile.mkdtemp(prefix="disk-")).resolve()
    directory.chmod(0o755)
    try:
        made = Disk(directory)
    except (OSError, subprocess.CalledProcessError):
        shutil.rmtree(directory)
        yield None
        return
    try:
        yield made
    finally:
        made.unmount()
        shutil.rmtree(directory)


def _run(*command: object) -> None:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    subprocess.run([*map(str, command)], check=True, env={"PATH": path}, **quiet)
