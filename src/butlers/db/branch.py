"""A chain of migrations."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Branch:
    """A chain of revisions: its Alembic label, the package resource that holds them, the newest.

    A branch that does not name its newest revision is always left to Alembic to look at.
    """

    label: str
    location: str
    head: str = ""
