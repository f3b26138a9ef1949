"""The schema of one module: how to make it, and how to upgrade it."""

from dataclasses import dataclass


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
        """Whether a revision of this branch is too old to be upgraded: `mem_033` of `mem_034`."""
        prefix = self.baseline.rpartition("_")[0]
        return bool(prefix) and revision.startswith(f"{prefix}_") and revision < self.baseline
