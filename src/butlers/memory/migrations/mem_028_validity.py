"""When a fact holds and when it was believed; which sources are outdated, what is in doubt."""

from pathlib import Path

from butlers.db.upgrade import fetch_section, run_sections, run_sections_again

revision = "mem_028"
down_revision = "mem_027"

# What a search asks of a memory before it is shown: as before, and for which time.
ASKED = (
    "types text[], by_scope text, least_confidence float, at timestamptz, as_of timestamptz, "
    "known_at timestamptz"
)
GIVEN = "types, by_scope, least_confidence, at, as_of, known_at"
FINDERS = {
    "mem_021_legs.py": ("nearest_shown", "matching_shown"),
    "mem_022_candidates.py": ("shown_candidates", "find_candidates"),
}


def upgrade() -> None:
    """A fact holds since it took another's place, and until another took its own; else always."""
    run_sections(__file__)
    run_sections(str(Path(__file__).with_name("mem_028_standing.py")))
    for file, names in FINDERS.items():
        run_sections_again(str(Path(__file__).with_name(file)), names, asked=ASKED, given=GIVEN)
    fetch_section(__file__, "act_for", {"tenant": ""})
    for row in fetch_section(__file__, "tenants", {}):
        values = {"tenant": row["tenant"]}
        for step in ("act_for", "begun", "ended", "entered"):
            fetch_section(__file__, step, values)
