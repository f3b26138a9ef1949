"""Who said each memory and how far that is trusted, and what waits in quarantine."""

from butlers.db.upgrade import fetch_section, run_sections

revision = "mem_024"
down_revision = "mem_023"

TABLES = ("episodes", "facts", "rules")
DRAWN = ("facts", "rules")


def upgrade() -> None:
    """What a model drew is marked as such; everything else was stated by an explicit call."""
    run_sections(__file__, table=TABLES)
    for row in fetch_section(__file__, "tenants", {}, table=""):
        values = {"tenant": row["tenant"]}
        fetch_section(__file__, "act_for", values, table="")
        for table in TABLES:
            fetch_section(__file__, "storers", values, table=table)
        for table in DRAWN:
            fetch_section(__file__, "drawn", values, table=table)
