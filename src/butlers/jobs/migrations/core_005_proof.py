"""The log of sessions is there for whoever proves to act for its tenant."""

from butlers.db.upgrade import run_sections

revision = "core_005"
down_revision = "core_004"


def upgrade() -> None:
    """To say for whom one acts is not enough."""
    run_sections(__file__)
