"""A notebook in a file of its own."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from butlers.notebook import MemoryManager, Notebook, open_notebook


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notebook.db"


@pytest.fixture
def db(path: Path, clock: Callable[[], datetime]) -> Iterator[Notebook]:
    notebook = open_notebook(path, clock=clock)
    yield notebook
    notebook.close()


@pytest.fixture
def manager(db: Notebook) -> MemoryManager:
    return MemoryManager(db)
