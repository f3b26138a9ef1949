"""Who asked for what: request lineage on events, rule applications, idempotency keys."""

from butlers.db.upgrade import run_sections

revision = "mem_006"
down_revision = "mem_005"


def upgrade() -> None:
    """Every event can name the memory and the request it belongs to."""
    run_sections(__file__, table=("episodes", "facts", "rules"))
