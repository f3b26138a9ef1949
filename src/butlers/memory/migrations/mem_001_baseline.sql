-- vectors --
-- Vectors, and the search among them.
create extension if not exists vector with schema public;

-- ids --
-- Ids never depend on it, and not every server has it: created where it can be.
do $$
begin
  if exists (select from pg_available_extensions where name = 'uuid-ossp') then
    create extension if not exists "uuid-ossp" with schema public;
  end if;
end
$$;

-- episodes --
-- What happened, until it is consolidated or too old.
create table episodes (
  id uuid primary key default gen_random_uuid(),
  butler text not null,
  session_id uuid,
  content text not null,
  embedding vector(384),
  search_vector tsvector,
  importance float not null default 5.0,
  reference_count integer not null default 0,
  consolidated boolean not null default false,
  consolidation_status varchar(20) not null default 'pending',
  retry_count integer not null default 0,
  last_error text,
  created_at timestamptz not null default now(),
  last_referenced_at timestamptz,
  expires_at timestamptz default now() + interval '7 days',
  metadata jsonb not null default '{}'
);
create index episodes_butler_created on episodes (butler, created_at desc);
create index episodes_expires on episodes (expires_at) where expires_at is not null;
create index episodes_pending on episodes (butler, created_at)
where consolidation_status = 'pending';
create index episodes_search on episodes using gin (search_vector);
create index episodes_embedding on episodes
using ivfflat (embedding vector_cosine_ops) with (lists = 20);

-- facts --
-- What is known; a newer fact supersedes an older one.
create table facts (
  id uuid primary key default gen_random_uuid(),
  subject text not null,
  predicate text not null,
  content text not null,
  embedding vector(384),
  search_vector tsvector,
  importance float not null default 5.0,
  confidence float not null default 1.0,
  decay_rate float not null default 0.008,
  permanence text not null default 'standard',
  source_butler text,
  source_episode_id uuid references episodes (id) on delete set null,
  supersedes_id uuid references facts (id) on delete set null,
  validity text not null default 'active',
  scope text not null default 'global',
  reference_count integer not null default 0,
  created_at timestamptz not null default now(),
  last_referenced_at timestamptz,
  last_confirmed_at timestamptz,
  tags jsonb not null default '[]',
  metadata jsonb not null default '{}'
);
create index facts_scope_active on facts (scope, validity) where validity = 'active';
create index facts_subject_predicate on facts (subject, predicate);
create index facts_search on facts using gin (search_vector);
create index facts_tags on facts using gin (tags);
create index facts_embedding on facts
using ivfflat (embedding vector_cosine_ops) with (lists = 20);

-- rules --
-- What has proved to work, and how often it did.
create table rules (
  id uuid primary key default gen_random_uuid(),
  content text not null,
  embedding vector(384),
  search_vector tsvector,
  scope text not null default 'global',
  maturity text not null default 'candidate',
  confidence float not null default 0.5,
  decay_rate float not null default 0.008,
  permanence text not null default 'standard',
  effectiveness_score float not null default 0.0,
  applied_count integer not null default 0,
  success_count integer not null default 0,
  harmful_count integer not null default 0,
  source_episode_id uuid references episodes (id) on delete set null,
  source_butler text,
  created_at timestamptz not null default now(),
  last_applied_at timestamptz,
  last_evaluated_at timestamptz,
  last_confirmed_at timestamptz,
  reference_count integer not null default 0,
  last_referenced_at timestamptz,
  tags jsonb not null default '[]',
  metadata jsonb not null default '{}'
);
create index rules_scope_maturity on rules (scope, maturity);
create index rules_search on rules using gin (search_vector);
create index rules_tags on rules using gin (tags);
create index rules_embedding on rules
using ivfflat (embedding vector_cosine_ops) with (lists = 20);

-- memory_links --
-- How memories are related to each other.
create table memory_links (
  source_type text not null,
  source_id uuid not null,
  target_type text not null,
  target_id uuid not null,
  relation text not null,
  created_at timestamptz not null default now(),
  primary key (source_type, source_id, target_type, target_id),
  constraint memory_links_relation check (
    relation in ('derived_from', 'supports', 'contradicts', 'supersedes', 'related_to')
  )
);
create index memory_links_target on memory_links (target_type, target_id);
