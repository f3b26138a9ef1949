"""What every butler has, whichever modules it loads: job runs and what its sessions cost.

They belong to the butler itself, not to a tenant: none holds a memory of anybody's.
"""

from butlers.db.upgrade import run_sections

revision = "core_001"
down_revision = None
branch_labels = ("core",)


def upgrade() -> None:
    """Job runs and completions are on record, for the role that serves requests."""
    run_sections(__file__)
