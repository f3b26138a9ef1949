"""Entities: who and what the facts are about."""

from alembic import op

revision = "mem_002"
down_revision = "mem_001"
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    create table entities (
      id uuid primary key default gen_random_uuid(),
      tenant_id text not null,
      canonical_name varchar not null,
      entity_type varchar not null,
      aliases text[] not null default '{}',
      metadata jsonb not null default '{}',
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      constraint entities_name_unique unique (tenant_id, canonical_name, entity_type),
      constraint entities_entity_type check (
        entity_type in ('person', 'organization', 'place', 'other')
      )
    )
    """,
    "create index entities_tenant_name on entities (tenant_id, canonical_name)",
    "create index entities_aliases on entities using gin (aliases)",
    "create index entities_metadata on entities using gin (metadata)",
    """
    alter table facts
    add column entity_id uuid constraint facts_entity references entities (id) on delete restrict
    """,
    # Before uniqueness was enforced two active facts could share a key: the newest one stays.
    """
    update facts set validity = 'superseded'
    where id in (
      select id from (
        select id, row_number() over (
          partition by scope, subject, predicate order by created_at desc, id
        ) as place
        from facts where validity = 'active'
      ) ranked
      where place > 1
    )
    """,
    """
    create unique index facts_active_entity_key on facts (entity_id, scope, predicate)
    where entity_id is not null and validity = 'active'
    """,
    """
    create unique index facts_active_subject_key on facts (scope, subject, predicate)
    where entity_id is null and validity = 'active'
    """,
)


def upgrade() -> None:
    """A fact may name an entity, and an active fact is unique under its key."""
    for statement in STATEMENTS:
        op.execute(statement)
