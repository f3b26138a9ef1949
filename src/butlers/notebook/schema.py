"""Open a notebook's file and create its tables."""

from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path

from butlers.clock import Clock, utc_now
from butlers.db import queries
from butlers.db.queries import NamedQuery
from butlers.db.sqlite import SqliteDatabase, connect
from butlers.ids import NewId, new_id
from butlers.kernel.secrets import Secrets
from butlers.notebook.handle import Notebook, NoteLimits
from butlers.notebook.terms import renew_notes

_CORE = queries.load(__file__)
_EXTENSIONS = queries.load(str(Path(__file__).with_name("schema_extensions.py")))
_MASTER = queries.parse("-- objects --\nselect type, name from sqlite_master")


def open_notebook(
    path: Path | str,
    *,
    clock: Clock = utc_now,
    new_id: NewId = new_id,
    limits: NoteLimits | None = None,
    secrets: Secrets = "mask",
    worker: Executor | None = None,
) -> Notebook:
    """Open the notebook in a file, or in `:memory:`; create the tables of notes."""
    sqlite = connect(path)
    db = Notebook(sqlite, clock, new_id, limits or NoteLimits(), secrets, worker=worker)
    try:
        _create(sqlite, _CORE)
        renew_notes(db)
    except BaseException:
        sqlite.close()
        raise
    return db


def ensure_memory_schema(db: Notebook) -> None:
    """Create every missing table of the notebook."""
    _create(db.sqlite, _CORE)
    _create(db.sqlite, _EXTENSIONS)


def present_tables(db: Notebook) -> frozenset[str]:
    """List the tables that exist; those of categories, weights and references are optional."""
    return frozenset(name for kind, name in db.sqlite.fetch(_MASTER["objects"]) if kind == "table")


def _create(sqlite: SqliteDatabase, statements: Mapping[str, NamedQuery]) -> None:
    """Run all statements unless every object exists, so that opening takes no write lock."""
    present = {name for _, name in sqlite.fetch(_MASTER["objects"])}
    if statements.keys() - {"adopted"} <= present:
        return
    with sqlite.transaction():
        for statement in statements.values():
            sqlite.execute(statement)
