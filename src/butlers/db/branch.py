"""The schema of one module: how to make it, and how to upgrade it."""

import re
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Branch:
    """The tables of one module: its Alembic label, revisions, newest revision, and schema.

    `location` and `schema` are package resources such as `butlers:memory/migrations`. A new
    database is made from the `.sql` files of `schema` and stamped with `head`; without a schema
    every revision is applied. Revisions before `baseline` are no longer in the code.
    """

    label: str
    location: str
    head: str = ""
    schema: str = ""
    baseline: str = ""

    def is_retired(self, revision: str) -> bool:
        """Return whether a revision of this branch is older than the baseline."""
        prefix = self.baseline.rpartition("_")[0]
        return bool(prefix) and revision.startswith(f"{prefix}_") and revision < self.baseline


def newest_revision(location: str) -> str:
    """Return the newest revision by file names, `mem_035` of `mem_035_names.py`."""
    package, _, path = location.partition(":")
    names = [file.name for file in (files(package) / path).iterdir()]
    found = (re.match(r"[a-z]+_\d+(?=_\w+\.py$)", name) for name in names)
    return max(match[0] for match in found if match)
