"""Another model's vectors beside those in use: the way to it, and the way back.

A memory's vector in use lies in its own row. While a tenant moves to another model, the vectors of
that model lie aside, and a version's state says which ones searches use: moving over is changing
two states, however many memories there are.
"""

from alembic import op

revision = "mem_010"
down_revision = "mem_009"
branch_labels = None
depends_on = None

STATES = (
    "alter table embedding_versions add column state text not null default 'aside'",
    "alter table embedding_versions add column directory text not null default ''",
    """
    alter table embedding_versions add constraint embedding_versions_state
    check (state in ('current', 'building', 'previous', 'aside'))
    """,
    # The model that was put to use last is the one in use.
    """
    update embedding_versions set state = 'current'
    where id in (
      select distinct on (tenant_id) id from embedding_versions
      order by tenant_id, created_at desc, id
    )
    """,
    *(
        f"create unique index embedding_versions_{state} on embedding_versions (tenant_id) "
        f"where state = '{state}'"
        for state in ("current", "building", "previous")
    ),
)

NOUNS = {"episode": "episodes", "fact": "facts", "rule": "rules"}
TEXTS = {
    "episode": ("content",),
    "fact": ("subject", "predicate", "content"),
    "rule": ("content",),
}


def _vectors(noun: str, table: str) -> tuple[str, ...]:
    """A table of vectors aside, as closed as the memories it belongs to."""
    vectors = f"{noun}_vectors"
    return (
        f"""
        create table {vectors} (
          tenant_id text not null,
          {noun}_id uuid not null,
          embedding_version_id uuid not null,
          embedding vector(384) not null,
          created_at timestamptz not null,
          primary key (tenant_id, embedding_version_id, {noun}_id),
          constraint {vectors}_{noun} foreign key (tenant_id, {noun}_id)
            references {table} (tenant_id, id) on delete cascade,
          constraint {vectors}_embedding_version foreign key (tenant_id, embedding_version_id)
            references embedding_versions (tenant_id, id),
          constraint {vectors}_tenant_named check (tenant_id <> '')
        )
        """,
        f"create index {vectors}_{noun} on {vectors} (tenant_id, {noun}_id)",
        f"alter table {vectors} enable row level security",
        f"alter table {vectors} force row level security",
        f"create policy {vectors}_own_tenant on {vectors} "
        "using (tenant_id = current_setting('butlers.tenant', true)) "
        "with check (tenant_id = current_setting('butlers.tenant', true))",
        f"grant select, insert, delete on {vectors} to butlers_runtime",
    )


def _staleness(noun: str, table: str) -> tuple[str, ...]:
    """A memory that is reworded has no vector aside any more: what was made was of another text."""
    changed = " or ".join(f"old.{name} is distinct from new.{name}" for name in TEXTS[noun])
    return (
        f"""
        create function drop_stale_{noun}_vectors() returns trigger language plpgsql as $$
        begin
          delete from {noun}_vectors where tenant_id = new.tenant_id and {noun}_id = new.id;
          return null;
        end
        $$
        """,  # noqa: S608
        f"create trigger {table}_reworded after update of {', '.join(TEXTS[noun])} on {table} "
        f"for each row when ({changed}) execute function drop_stale_{noun}_vectors()",
    )


COLUMNS = {
    "episode": "id uuid, created_at timestamptz, importance float, "
    "last_referenced_at timestamptz, butler text, expires_at timestamptz",
    "fact": "id uuid, created_at timestamptz, importance float, last_referenced_at timestamptz, "
    "confidence float, decay_rate float, last_confirmed_at timestamptz, validity text, scope text",
    "rule": "id uuid, created_at timestamptz, last_referenced_at timestamptz, confidence float, "
    "decay_rate float, last_confirmed_at timestamptz, metadata jsonb, scope text",
}


def _embedded_by(noun: str, table: str) -> str:
    """The memories with their vector of one version, wherever it lies; a statement contains it."""
    names = [column.split()[0] for column in COLUMNS[noun].split(", ")]
    return f"""
        create function {table}_embedded_by(version uuid)
        returns table (tenant_id text, {COLUMNS[noun]}, embedding vector)
        language sql stable
        begin atomic
          select m.tenant_id, {", ".join(f"m.{name}" for name in names)}, m.embedding
          from {table} m
          where m.embedding_version_id = version
          union all
          select m.tenant_id, {", ".join(f"m.{name}" for name in names)}, v.embedding
          from {noun}_vectors v
          join {table} m on m.tenant_id = v.tenant_id and m.id = v.{noun}_id
          where v.embedding_version_id = version
            and m.embedding_version_id is distinct from version;
        end
    """  # noqa: S608


def upgrade() -> None:
    """A tenant has one model in use, and may have another on its way or kept to go back to."""
    for statement in STATES:
        op.execute(statement)
    for noun, table in NOUNS.items():
        for statement in (*_vectors(noun, table), *_staleness(noun, table)):
            op.execute(statement)
        op.execute(_embedded_by(noun, table))
