"""Row-level security, forced, for a role that owns nothing; an audit stream nobody can rewrite."""

from alembic import op

revision = "mem_009"
down_revision = "mem_008"
branch_labels = None
depends_on = None

TABLES = (
    "episodes", "facts", "rules", "entities", "memory_links",
    "memory_events", "rule_applications", "embedding_versions",
)  # fmt: skip
# The only tables whose rows the product ever deletes.
DELETABLE = ("episodes",)
APPEND_ONLY = ("memory_events", "rule_applications")

POLICIES = tuple(
    statement
    for table in TABLES
    for statement in (
        f"alter table {table} enable row level security",
        f"alter table {table} force row level security",
        f"create policy {table}_own_tenant on {table} "
        "using (tenant_id = current_setting('butlers.tenant', true)) "
        "with check (tenant_id = current_setting('butlers.tenant', true))",
        f"alter table {table} add constraint {table}_tenant_named check (tenant_id <> '')",
        f"grant select, insert on {table} to butlers_runtime",
    )
)

RIGHTS = (
    "grant usage on schema public to butlers_runtime",
    *(f"grant update on {t} to butlers_runtime" for t in TABLES if t not in APPEND_ONLY),
    *(f"grant delete on {t} to butlers_runtime" for t in DELETABLE),
)

# Not even the owner rewrites history by accident.
HISTORY = (
    """
    create function refuse_rewriting_history() returns trigger language plpgsql as $$
    begin
      raise exception '% is append-only: % refused', tg_table_name, tg_op
      using errcode = 'integrity_constraint_violation';
    end
    $$
    """,
    *(
        f"create trigger {table}_append_only before update or delete on {table} "
        "for each statement execute function refuse_rewriting_history()"
        for table in APPEND_ONLY
    ),
)

# Workers walk every tenant, but no tenant may learn of another: the list is kept by triggers in
# a table the runtime role cannot read, and handed out by one function.
TENANTS = (
    """
    create table memory_tenants (
      tenant text primary key,
      first_seen_at timestamptz not null default now()
    )
    """,
    "insert into memory_tenants (tenant) select tenant_id from episodes union "
    "select tenant_id from facts union select tenant_id from rules union "
    "select tenant_id from entities",
    """
    create function note_tenants() returns trigger
    language plpgsql security definer set search_path = public, pg_temp as $$
    begin
      insert into memory_tenants (tenant)
      select distinct tenant_id from inserted
      where not exists (select from memory_tenants where tenant = inserted.tenant_id)
      on conflict do nothing;
      return null;
    end
    $$
    """,
    *(
        f"create trigger {table}_note_tenant after insert on {table} "
        "referencing new table as inserted for each statement execute function note_tenants()"
        for table in ("episodes", "facts", "rules", "entities")
    ),
    """
    create function memory_tenant_names() returns setof text
    language sql stable security definer set search_path = public, pg_temp
    begin atomic
      select tenant from memory_tenants order by tenant;
    end
    """,
    "revoke all on memory_tenants from public",
    "revoke all on function memory_tenant_names() from public",
    "grant execute on function memory_tenant_names() to butlers_runtime",
)

# Under row-level security an index serves only conditions that cannot leak a row's content.
# Text matching raises no error that could, but PostgreSQL has it unmarked, and only a superuser
# may say so; where we are not one, keyword search reads the tenant's rows instead of the index.
INDEXABLE = """
    do $$
    begin
      if (select rolsuper from pg_roles where rolname = current_user) then
        alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof;
      end if;
    end
    $$
"""


def upgrade() -> None:
    """A tenant's rows are invisible and untouchable outside a transaction that names it."""
    for statement in (*TENANTS, *POLICIES, *RIGHTS, *HISTORY, INDEXABLE):
        op.execute(statement)
