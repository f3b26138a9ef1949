-- rules --
-- What has proved to work and how often. A rule keeps part of its confidence by its maturity.
create table rules (
  id uuid primary key default gen_random_uuid(),
  content text not null,
  embedding vector(384) storage external,
  search_vector tsvector storage main,
  scope text not null default 'global',
  maturity text not null default 'candidate',
  confidence float not null default 0.5,
  decay_rate float not null default 0.008,
  permanence text not null default 'standard',
  effectiveness_score float not null default 0.0,
  applied_count integer not null default 0,
  success_count integer not null default 0,
  harmful_count integer not null default 0,
  source_episode_id uuid,
  source_butler text,
  created_at timestamptz not null default now(),
  last_applied_at timestamptz,
  last_evaluated_at timestamptz,
  last_confirmed_at timestamptz,
  reference_count integer not null default 0,
  last_referenced_at timestamptz,
  tags jsonb not null default '[]',
  metadata jsonb not null default '{}',
  tenant_id text not null,
  idempotency_key text,
  embedding_version_id uuid,
  origin text not null default 'agent',
  trust smallint not null default 4,
  stored_by text,
  quarantined text,
  confidence_floor float not null generated always as (
    confidence * case maturity
      when 'established' then 0.2
      when 'proven' then 0.5
      when 'anti_pattern' then 1.0
      else 0.0
    end
  ) stored,
  said_at timestamptz,
  agent text,
  accepted_by text,
  {rules_constraints},
  constraint rules_maturity
    check (maturity in ('candidate', 'established', 'proven', 'anti_pattern')),
  constraint rules_permanence
    check (permanence in ('permanent', 'stable', 'standard', 'volatile', 'ephemeral')),
  constraint rules_confidence check (confidence between 0 and 1),
  constraint rules_decay_rate check (decay_rate >= 0),
  constraint rules_counts check (
    success_count >= 0 and harmful_count >= 0 and applied_count >= success_count + harmful_count
  ),
  constraint rules_episode_same_tenant foreign key (tenant_id, source_episode_id)
    references episodes (tenant_id, id) on delete set null (source_episode_id) deferrable
) with (fillfactor = 70);
create index rules_scope_maturity on rules (scope, maturity);
create index rules_tags on rules using gin (tags);
create index rules_source_episode on rules (source_episode_id) where source_episode_id is not null;
create index rules_tenant on rules (tenant_id, scope);
create index rules_tenant_created on rules (tenant_id, created_at desc, id);
create index rules_decaying on rules (tenant_id, id) where decay_rate > 0;
create index rules_quarantined on rules (tenant_id, created_at, id) where quarantined is not null;
create index rules_less_trusted on rules (tenant_id, id)
where trust < 3 or quarantined is not null;
create unique index rules_idempotency on rules (tenant_id, idempotency_key)
where idempotency_key is not null;

-- memory_links --
-- How memories relate to each other.
create table memory_links (
  source_type text not null,
  source_id uuid not null,
  target_type text not null,
  target_id uuid not null,
  relation text not null,
  created_at timestamptz not null default now(),
  tenant_id text not null,
  primary key (source_type, source_id, target_type, target_id),
  constraint memory_links_relation check (
    relation in (
      'derived_from', 'supports', 'contradicts', 'supersedes', 'related_to', 'depends_on'
    )
  ),
  constraint memory_links_source_type check (source_type in ('episode', 'fact', 'rule')),
  constraint memory_links_target_type check (target_type in ('episode', 'fact', 'rule')),
  constraint memory_links_not_to_itself
    check ((source_type, source_id) <> (target_type, target_id))
);
create index memory_links_target on memory_links (target_type, target_id);
create index memory_links_tenant on memory_links (tenant_id);
create index memory_links_grounds on memory_links (tenant_id, target_type, target_id)
where relation = 'depends_on';

-- {kind}: episode, fact, rule --
-- {kind}_vectors --
-- Vectors of a model that is not in use, one table per kind of memory.
create table {kind}_vectors (
  tenant_id text not null,
  {kind}_id uuid not null,
  embedding_version_id uuid not null,
  embedding vector(384) not null,
  created_at timestamptz not null,
  primary key (tenant_id, embedding_version_id, {kind}_id),
  constraint {kind}_vectors_{kind} foreign key (tenant_id, {kind}_id)
    references {kind}s (tenant_id, id) on delete cascade,
  constraint {kind}_vectors_embedding_version foreign key (tenant_id, embedding_version_id)
    references embedding_versions (tenant_id, id)
);
create index {kind}_vectors_{kind} on {kind}_vectors (tenant_id, {kind}_id);

-- stale_{kind}_vectors --
-- Trigger: a reworded memory loses its vectors of other models.
create or replace function drop_stale_{kind}_vectors() returns trigger language plpgsql as $$
        begin
          delete from {kind}_vectors where tenant_id = new.tenant_id and {kind}_id = new.id;
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
