"""Every row belongs to a tenant; keys and provenance stay inside one."""

from butlers.db.upgrade import run_sections

revision = "mem_004"
down_revision = "mem_003"


def upgrade() -> None:
    """Every row names its tenant, and no reference crosses tenants."""
    run_sections(__file__, table=("episodes", "facts", "rules", "memory_links"))
