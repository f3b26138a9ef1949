"""${message}"""

from butlers.db.upgrade import run_sections

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Say here what is true afterwards."""
    run_sections(__file__)
