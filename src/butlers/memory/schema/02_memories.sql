-- entities --
-- People, organisations, places: unique in a tenant by name and type. `trust` is that of who
-- created one: what low trust calls somebody changes no question.
create table entities (
  id uuid primary key default gen_random_uuid(),
  tenant_id text not null,
  canonical_name varchar not null,
  entity_type varchar not null,
  aliases text[] not null default '{}',
  metadata jsonb not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  trust smallint not null default 4,
  constraint entities_name_unique unique (tenant_id, canonical_name, entity_type),
  constraint entities_entity_type check (
    entity_type in ('person', 'organization', 'place', 'other')
  ),
  constraint entities_tenant_id unique (tenant_id, id),
  constraint entities_trust check (trust between 0 and 4)
);
create index entities_tenant_name on entities (tenant_id, canonical_name);
create index entities_aliases on entities using gin (aliases);
create index entities_metadata on entities using gin (metadata);
create index entities_tenant_created on entities (tenant_id, created_at desc, id);

-- embedding_versions --
-- Models that made a tenant's vectors: at most one in use, one being built, one to go back to.
create table embedding_versions (
  id uuid primary key,
  tenant_id text not null,
  model text not null,
  version text not null,
  dimensions integer not null,
  created_at timestamptz not null,
  state text not null default 'aside',
  directory text not null default '',
  constraint embedding_versions_unique unique (tenant_id, model, version),
  constraint embedding_versions_tenant_id unique (tenant_id, id),
  constraint embedding_versions_dimensions check (dimensions > 0),
  constraint embedding_versions_state
    check (state in ('current', 'building', 'previous', 'aside'))
);
create unique index embedding_versions_current on embedding_versions (tenant_id)
where state = 'current';
create unique index embedding_versions_building on embedding_versions (tenant_id)
where state = 'building';
create unique index embedding_versions_previous on embedding_versions (tenant_id)
where state = 'previous';

-- episodes --
-- What happened. `trust`: 4 stated, 3 inferred, 2 document, 1 tool output, 0 low-trust token.
create table episodes (
  id uuid primary key default gen_random_uuid(),
  butler text not null,
  session_id uuid,
  content text not null,
  -- Out of line: searches read vectors from index_vectors.
  embedding vector(384) storage external,
  search_vector tsvector storage main,
  importance float not null default 5.0,
  reference_count integer not null default 0,
  consolidated boolean not null default false,
  consolidation_status varchar(20) not null default 'pending',
  created_at timestamptz not null default now(),
  last_referenced_at timestamptz,
  expires_at timestamptz default now() + interval '7 days',
  metadata jsonb not null default '{}',
  tenant_id text not null,
  consolidation_attempts integer not null default 0,
  last_consolidation_error text,
  next_consolidation_retry_at timestamptz,
  leased_until timestamptz,
  leased_by text,
  dead_letter_reason text,
  -- Older names of consolidation_attempts and last_consolidation_error.
  retry_count integer generated always as (consolidation_attempts) stored,
  last_error text generated always as (last_consolidation_error) stored,
  idempotency_key text,
  embedding_version_id uuid,
  author text,
  said_at timestamptz,
  place integer,
  consolidation_batch integer,
  origin text not null default 'agent',
  trust smallint not null default 4,
  stored_by text,
  quarantined text,
  -- What a piece of a session is; null for a whole episode. `past_by`: the piece that replaced it.
  piece text,
  past_by uuid,
  -- The agent that stored it, and the person who accepted or confirmed it.
  agent text,
  accepted_by text,
  {episodes_constraints},
  constraint episodes_consolidation_status
    check (consolidation_status in ('pending', 'consolidated', 'failed', 'dead_letter')),
  constraint episodes_consolidated_agrees
    check (consolidated = (consolidation_status = 'consolidated')),
  constraint episodes_dead_letter_has_reason
    check ((consolidation_status = 'dead_letter') = (dead_letter_reason is not null)),
  constraint episodes_lease_is_whole check ((leased_until is null) = (leased_by is null)),
  constraint episodes_attempts check (consolidation_attempts >= 0),
  constraint episodes_consolidation_batch check (consolidation_batch >= 1),
  constraint episodes_importance check (importance between 0 and 10),
  constraint episodes_piece check (piece in ('said', 'answer', 'decision', 'failure', 'files')),
  constraint episodes_piece_is_read check (piece is null or consolidated),
  constraint episodes_past_by check (past_by is null or piece is not null)
) with (fillfactor = 70);
create index episodes_butler_created on episodes (butler, created_at desc);
create index episodes_expires on episodes (expires_at) where expires_at is not null;
create index episodes_pending on episodes (butler, created_at)
where consolidation_status = 'pending';
create index episodes_tenant on episodes (tenant_id, butler, created_at desc);
create index episodes_tenant_created on episodes (tenant_id, created_at desc, id);
create index episodes_claimable on episodes (tenant_id, butler, created_at, id)
where consolidation_status in ('pending', 'failed');
create index episodes_capacity on episodes (tenant_id, created_at, id)
where consolidation_status = 'consolidated' and piece is null;
create index episodes_whole on episodes (tenant_id, created_at desc, id) where piece is null;
create index episodes_part on episodes (tenant_id, (metadata ->> 'part')) where piece is not null;
create index episodes_latest_piece on episodes (tenant_id, said_at desc, place desc, id)
where piece is not null;
create index episodes_decided on episodes (tenant_id, session_id) where piece = 'decision';
create index episodes_past on episodes (tenant_id, past_by) where past_by is not null;
create index episodes_unread on episodes (tenant_id, created_at, id)
where consolidation_status <> 'consolidated';
create index episodes_quarantined on episodes (tenant_id, created_at, id)
where quarantined is not null;
create index episodes_less_trusted on episodes (tenant_id, id)
where trust < 3 or quarantined is not null;
create unique index episodes_idempotency on episodes (tenant_id, idempotency_key)
where idempotency_key is not null;

-- refuse_consolidation_edge --
-- Trigger: refuse a step that the lifecycle of consolidation does not have.
create or replace function refuse_consolidation_edge() returns trigger language plpgsql as $$
    begin
      raise exception 'an episode cannot go from % to %',
        old.consolidation_status, new.consolidation_status
      using errcode = 'integrity_constraint_violation';
    end
    $$;

-- consolidation_edges --
-- A consolidated episode stays so; a dead letter leaves only by being queued again.
create trigger episodes_consolidation_edges before update of consolidation_status on episodes
for each row when (
  old.consolidation_status <> new.consolidation_status
  and (old.consolidation_status, new.consolidation_status) not in (
    ('pending', 'consolidated'), ('pending', 'failed'), ('pending', 'dead_letter'),
    ('failed', 'consolidated'), ('failed', 'dead_letter'),
    ('dead_letter', 'pending')
  )
)
execute function refuse_consolidation_edge();

-- facts --
-- What is known; active facts of one key never overlap. Imports defer the foreign keys.
create table facts (
  id uuid primary key default gen_random_uuid(),
  subject text not null,
  predicate text not null,
  content text not null,
  embedding vector(384) storage external,
  search_vector tsvector storage main,
  importance float not null default 5.0,
  confidence float not null default 1.0,
  decay_rate float not null default 0.008,
  permanence text not null default 'standard',
  source_butler text,
  source_episode_id uuid,
  supersedes_id uuid,
  validity text not null default 'active',
  scope text not null default 'global',
  reference_count integer not null default 0,
  created_at timestamptz not null default now(),
  last_referenced_at timestamptz,
  last_confirmed_at timestamptz,
  tags jsonb not null default '[]',
  metadata jsonb not null default '{}',
  entity_id uuid constraint facts_entity references entities (id) on delete restrict,
  tenant_id text not null,
  idempotency_key text,
  embedding_version_id uuid,
  said_at timestamptz,
  session_id uuid,
  place integer,
  author text,
  origin text not null default 'agent',
  trust smallint not null default 4,
  stored_by text,
  quarantined text,
  valid_from timestamptz,
  valid_to timestamptz,
  agent text,
  accepted_by text,
  {facts_constraints},
  constraint facts_validity
    check (validity in ('active', 'superseded', 'expired', 'retracted', 'quarantined')),
  constraint facts_quarantined check (validity <> 'quarantined' or quarantined is not null),
  constraint facts_permanence
    check (permanence in ('permanent', 'stable', 'standard', 'volatile', 'ephemeral')),
  constraint facts_confidence check (confidence between 0 and 1),
  constraint facts_importance check (importance between 0 and 10),
  constraint facts_decay_rate check (decay_rate >= 0),
  constraint facts_not_its_own_successor check (supersedes_id <> id),
  constraint facts_window check (valid_from <= valid_to),
  constraint facts_entity_same_tenant foreign key (tenant_id, entity_id)
    references entities (tenant_id, id) on delete restrict deferrable,
  constraint facts_episode_same_tenant foreign key (tenant_id, source_episode_id)
    references episodes (tenant_id, id) on delete set null (source_episode_id) deferrable,
  constraint facts_supersedes_same_tenant foreign key (tenant_id, supersedes_id)
    references facts (tenant_id, id) on delete set null (supersedes_id) deferrable
) with (fillfactor = 70);
create index facts_scope_active on facts (scope, validity) where validity = 'active';
create index facts_subject_predicate on facts (subject, predicate);
create index facts_tags on facts using gin (tags);
create index facts_source_episode on facts (source_episode_id) where source_episode_id is not null;
create index facts_supersedes on facts (supersedes_id) where supersedes_id is not null;
create index facts_entity on facts (entity_id) where entity_id is not null;
create index facts_tenant_active on facts (tenant_id, scope) where validity = 'active';
create index facts_tenant_created on facts (tenant_id, created_at desc, id);
create index facts_decaying on facts (tenant_id, id) where validity = 'active' and decay_rate > 0;
create index facts_counted on facts (tenant_id, scope, validity);
create index facts_fading on facts (tenant_id, scope)
where fact_state(validity, metadata) = 'fading';
create index facts_active_entity_key on facts (tenant_id, entity_id, scope, predicate)
where validity = 'active' and entity_id is not null;
create index facts_active_subject_key on facts (tenant_id, scope, subject, predicate)
where validity = 'active' and entity_id is null;
create index facts_active_subject on facts (tenant_id, subject, created_at desc)
where validity = 'active' and entity_id is null;
create index facts_quarantined on facts (tenant_id, created_at, id) where quarantined is not null;
create index facts_less_trusted on facts (tenant_id, id)
where trust < 3 or quarantined is not null;
create unique index facts_idempotency on facts (tenant_id, idempotency_key)
where idempotency_key is not null;
-- After the index above, so that a key used twice is reported before two facts at one time.
alter table facts add constraint facts_hold_apart exclude using gist (
  tenant_id with =,
  fact_key(scope, entity_id, subject, predicate) with =,
  tstzrange(valid_from, valid_to) with &&
) where (validity = 'active');
