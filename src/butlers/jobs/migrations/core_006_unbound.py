"""A proof can serve every connection, where a pooler or another node stands in between."""

from butlers.db.upgrade import run_sections

revision = "core_006"
down_revision = "core_005"


def upgrade() -> None:
    """Keys say whether what is proven with them is bound to one connection, as it was so far."""
    run_sections(__file__)
