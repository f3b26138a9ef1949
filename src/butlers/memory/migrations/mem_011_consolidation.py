"""An episode moves only along the edges of its state machine, whatever the code does."""

from alembic import op

revision = "mem_011"
down_revision = "mem_010"
branch_labels = None
depends_on = None

EDGES = (
    ("pending", "consolidated"),
    ("pending", "failed"),
    ("pending", "dead_letter"),
    ("failed", "consolidated"),
    ("failed", "dead_letter"),
    ("dead_letter", "pending"),
)
ALLOWED = ", ".join(f"('{before}', '{after}')" for before, after in EDGES)

STATEMENTS = (
    """
    create function refuse_consolidation_edge() returns trigger language plpgsql as $$
    begin
      raise exception 'an episode cannot go from % to %',
        old.consolidation_status, new.consolidation_status
      using errcode = 'integrity_constraint_violation';
    end
    $$
    """,
    f"""
    create trigger episodes_consolidation_edges before update of consolidation_status on episodes
    for each row when (
      old.consolidation_status <> new.consolidation_status
      and (old.consolidation_status, new.consolidation_status) not in ({ALLOWED})
    )
    execute function refuse_consolidation_edge()
    """,
)


def upgrade() -> None:
    """No episode returns from knowledge, nor leaves the dead letters but by being queued again."""
    for statement in STATEMENTS:
        op.execute(statement)
