"""Lifecycles the database understands: vocabularies, consolidation attempts, leases."""

from alembic import op

revision = "mem_005"
down_revision = "mem_004"
branch_labels = None
depends_on = None

CONSOLIDATION = (
    """
    alter table episodes
    add column consolidation_attempts integer not null default 0,
    add column last_consolidation_error text,
    add column next_consolidation_retry_at timestamptz,
    add column leased_until timestamptz,
    add column leased_by text,
    add column dead_letter_reason text
    """,
    """
    update episodes
    set consolidation_attempts = greatest(retry_count, 0), last_consolidation_error = last_error
    """,
    "alter table episodes drop column retry_count, drop column last_error",
    # Both names tell one truth: the older ones are derived.
    """
    alter table episodes
    add column retry_count integer generated always as (consolidation_attempts) stored,
    add column last_error text generated always as (last_consolidation_error) stored
    """,
)

NORMALISED = (
    "update facts set validity = 'retracted' where validity = 'forgotten'",
    # Fading is a note on an active fact, so it too takes part in the rule of one per key.
    """
    update facts set validity = 'superseded'
    where id in (
      select id from (
        select id, row_number() over (
          partition by tenant_id, scope, predicate, entity_id,
            case when entity_id is null then subject end
          order by created_at desc, id
        ) as place
        from facts where validity in ('active', 'fading')
      ) ranked
      where place > 1
    )
    """,
    """
    update facts set validity = 'active', metadata = metadata || '{"status": "fading"}'
    where validity = 'fading'
    """,
    """
    update episodes set consolidation_status = 'consolidated'
    where consolidated and consolidation_status <> 'consolidated'
    """,
    """
    update episodes set consolidated = true
    where not consolidated and consolidation_status = 'consolidated'
    """,
    """
    update episodes set dead_letter_reason = coalesce(last_consolidation_error, 'unknown')
    where consolidation_status = 'dead_letter'
    """,
)

# Nothing checked these before; a value outside its range counts as the nearest one inside.
IN_RANGE = (
    """
    update episodes set importance = least(greatest(importance, 0), 10)
    where importance not between 0 and 10
    """,
    """
    update facts set importance = least(greatest(importance, 0), 10),
      confidence = least(greatest(confidence, 0), 1), decay_rate = greatest(decay_rate, 0)
    where importance not between 0 and 10 or confidence not between 0 and 1 or decay_rate < 0
    """,
    """
    update rules set confidence = least(greatest(confidence, 0), 1),
      decay_rate = greatest(decay_rate, 0)
    where confidence not between 0 and 1 or decay_rate < 0
    """,
    """
    update rules set success_count = greatest(success_count, 0),
      harmful_count = greatest(harmful_count, 0),
      applied_count = greatest(
        applied_count, greatest(success_count, 0) + greatest(harmful_count, 0)
      )
    where applied_count < success_count + harmful_count or least(success_count, harmful_count) < 0
    """,
    "update facts set supersedes_id = null where supersedes_id = id",
)

PERMANENCE = "permanence in ('permanent', 'stable', 'standard', 'volatile', 'ephemeral')"
MEMORY_TYPES = "('episode', 'fact', 'rule')"

CHECKS = (
    ("episodes", "consolidation_status", "consolidation_status in "
     "('pending', 'consolidated', 'failed', 'dead_letter')"),
    ("episodes", "consolidated_agrees",
     "consolidated = (consolidation_status = 'consolidated')"),
    ("episodes", "dead_letter_has_reason",
     "(consolidation_status = 'dead_letter') = (dead_letter_reason is not null)"),
    ("episodes", "lease_is_whole", "(leased_until is null) = (leased_by is null)"),
    ("episodes", "attempts", "consolidation_attempts >= 0"),
    ("episodes", "importance", "importance between 0 and 10"),
    ("facts", "validity", "validity in ('active', 'superseded', 'expired', 'retracted')"),
    ("facts", "permanence", PERMANENCE),
    ("facts", "confidence", "confidence between 0 and 1"),
    ("facts", "importance", "importance between 0 and 10"),
    ("facts", "decay_rate", "decay_rate >= 0"),
    ("facts", "not_its_own_successor", "supersedes_id <> id"),
    ("rules", "maturity", "maturity in ('candidate', 'established', 'proven', 'anti_pattern')"),
    ("rules", "permanence", PERMANENCE),
    ("rules", "confidence", "confidence between 0 and 1"),
    ("rules", "decay_rate", "decay_rate >= 0"),
    ("rules", "counts", "success_count >= 0 and harmful_count >= 0 "
     "and applied_count >= success_count + harmful_count"),
    ("memory_links", "source_type", f"source_type in {MEMORY_TYPES}"),
    ("memory_links", "target_type", f"target_type in {MEMORY_TYPES}"),
    ("memory_links", "not_to_itself",
     "(source_type, source_id) <> (target_type, target_id)"),
)  # fmt: skip


def upgrade() -> None:
    """A state outside its vocabulary cannot be stored."""
    for statement in (*CONSOLIDATION, *NORMALISED, *IN_RANGE):
        op.execute(statement)
    for table, name, condition in CHECKS:
        op.execute(f"alter table {table} add constraint {table}_{name} check ({condition})")
