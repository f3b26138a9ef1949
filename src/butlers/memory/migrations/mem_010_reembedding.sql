-- states --
-- The model that was put to use last is the one in use.
alter table embedding_versions
add column state text not null default 'aside',
add column directory text not null default '',
add constraint embedding_versions_state
  check (state in ('current', 'building', 'previous', 'aside'));
update embedding_versions set state = 'current'
where id in (
  select distinct on (tenant_id) id from embedding_versions
  order by tenant_id, created_at desc, id
);

-- one_of_each --
-- A tenant has one model in use, one on its way and one to go back to, at most.
create unique index embedding_versions_current on embedding_versions (tenant_id)
where state = 'current';
create unique index embedding_versions_building on embedding_versions (tenant_id)
where state = 'building';
create unique index embedding_versions_previous on embedding_versions (tenant_id)
where state = 'previous';

-- vectors --
-- Vectors aside, as closed as the memories they belong to.
create table {noun}_vectors (
  tenant_id text not null,
  {noun}_id uuid not null,
  embedding_version_id uuid not null,
  embedding vector(384) not null,
  created_at timestamptz not null,
  primary key (tenant_id, embedding_version_id, {noun}_id),
  constraint {noun}_vectors_{noun} foreign key (tenant_id, {noun}_id)
    references {noun}s (tenant_id, id) on delete cascade,
  constraint {noun}_vectors_embedding_version foreign key (tenant_id, embedding_version_id)
    references embedding_versions (tenant_id, id),
  constraint {noun}_vectors_tenant_named check (tenant_id <> '')
);
create index {noun}_vectors_{noun} on {noun}_vectors (tenant_id, {noun}_id);
alter table {noun}_vectors enable row level security, force row level security;
create policy {noun}_vectors_own_tenant on {noun}_vectors
using (tenant_id = current_setting('butlers.tenant', true))
with check (tenant_id = current_setting('butlers.tenant', true));
grant select, insert, delete on {noun}_vectors to butlers_runtime;

-- stale --
-- A memory that is reworded has no vector aside any more: what was made was of another text.
create function drop_stale_{noun}_vectors() returns trigger language plpgsql as $$
        begin
          delete from {noun}_vectors where tenant_id = new.tenant_id and {noun}_id = new.id;
          return null;
        end
        $$;

-- reworded --
-- The texts a vector is made of.
create trigger episodes_reworded after update of content on episodes
for each row when (old.content is distinct from new.content)
execute function drop_stale_episode_vectors();
create trigger facts_reworded after update of subject, predicate, content on facts
for each row when (
  old.subject is distinct from new.subject
  or old.predicate is distinct from new.predicate
  or old.content is distinct from new.content
)
execute function drop_stale_fact_vectors();
create trigger rules_reworded after update of content on rules
for each row when (old.content is distinct from new.content)
execute function drop_stale_rule_vectors();

-- embedded_by --
-- The memories with their vector of one version, wherever it lies; a statement contains it.
create function episodes_embedded_by(version uuid) returns table (
  tenant_id text, id uuid, created_at timestamptz, importance float,
  last_referenced_at timestamptz, butler text, expires_at timestamptz, embedding vector
)
language sql stable
begin atomic
  select m.tenant_id, m.id, m.created_at, m.importance, m.last_referenced_at, m.butler,
    m.expires_at, m.embedding
  from episodes m
  where m.embedding_version_id = version
  union all
  select m.tenant_id, m.id, m.created_at, m.importance, m.last_referenced_at, m.butler,
    m.expires_at, v.embedding
  from episode_vectors v
  join episodes m on m.tenant_id = v.tenant_id and m.id = v.episode_id
  where v.embedding_version_id = version
    and m.embedding_version_id is distinct from version;
end;
create function facts_embedded_by(version uuid) returns table (
  tenant_id text, id uuid, created_at timestamptz, importance float,
  last_referenced_at timestamptz, confidence float, decay_rate float,
  last_confirmed_at timestamptz, validity text, scope text, embedding vector
)
language sql stable
begin atomic
  select m.tenant_id, m.id, m.created_at, m.importance, m.last_referenced_at, m.confidence,
    m.decay_rate, m.last_confirmed_at, m.validity, m.scope, m.embedding
  from facts m
  where m.embedding_version_id = version
  union all
  select m.tenant_id, m.id, m.created_at, m.importance, m.last_referenced_at, m.confidence,
    m.decay_rate, m.last_confirmed_at, m.validity, m.scope, v.embedding
  from fact_vectors v
  join facts m on m.tenant_id = v.tenant_id and m.id = v.fact_id
  where v.embedding_version_id = version
    and m.embedding_version_id is distinct from version;
end;
create function rules_embedded_by(version uuid) returns table (
  tenant_id text, id uuid, created_at timestamptz, last_referenced_at timestamptz,
  confidence float, decay_rate float, last_confirmed_at timestamptz, metadata jsonb,
  scope text, embedding vector
)
language sql stable
begin atomic
  select m.tenant_id, m.id, m.created_at, m.last_referenced_at, m.confidence, m.decay_rate,
    m.last_confirmed_at, m.metadata, m.scope, m.embedding
  from rules m
  where m.embedding_version_id = version
  union all
  select m.tenant_id, m.id, m.created_at, m.last_referenced_at, m.confidence, m.decay_rate,
    m.last_confirmed_at, m.metadata, m.scope, v.embedding
  from rule_vectors v
  join rules m on m.tenant_id = v.tenant_id and m.id = v.rule_id
  where v.embedding_version_id = version
    and m.embedding_version_id is distinct from version;
end;
