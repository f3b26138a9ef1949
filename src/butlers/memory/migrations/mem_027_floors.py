"""Rules keep some of their confidence by their maturity, and what helped is confirmed."""

from butlers.db.upgrade import fetch_section, run_sections

revision = "mem_027"
down_revision = "mem_026"


def upgrade() -> None:
    """A rule was confirmed when somebody last said that it helped."""
    run_sections(__file__)
    fetch_section(__file__, "act_for", {"tenant": ""})
    for row in fetch_section(__file__, "tenants", {}):
        values = {"tenant": row["tenant"]}
        for step in ("act_for", "helped", "entered"):
            fetch_section(__file__, step, values)
