"""Projects, each a scope of its own, and questions that are asked from several scopes at once."""

from butlers.db.upgrade import run_sections

revision = "mem_023"
down_revision = "mem_022"


def upgrade() -> None:
    """What was kept before belongs to its butler, as it did, and is seen from every project."""
    run_sections(__file__)
