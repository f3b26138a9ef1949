-- binned_episodes --
-- Episodes that expired or were evicted, kept for a while so that they can be restored.
create table binned_episodes (
  tenant_id text not null,
  episode_id uuid not null,
  binned_at timestamptz not null,
  reason text not null,
  episode jsonb not null,
  primary key (tenant_id, episode_id),
  constraint binned_episodes_reason check (reason in ('expired', 'evicted'))
);
create index binned_episodes_order on binned_episodes (tenant_id, binned_at, episode_id);

-- memory_proposals --
-- Changes that wait for somebody's approval.
create table memory_proposals (
  tenant_id text not null,
  id uuid not null,
  butler text not null,
  kind text not null,
  target_type text,
  target_id uuid,
  proposed jsonb not null default '{}',
  source_episode_ids uuid[] not null,
  reason text not null,
  status text not null default 'waiting',
  idempotency_key text not null,
  created_at timestamptz not null,
  proposed_by text not null,
  decided_at timestamptz,
  decided_by text,
  primary key (tenant_id, id),
  constraint memory_proposals_once unique (tenant_id, idempotency_key),
  constraint memory_proposals_kind
    check (kind in ('new_fact', 'updated_fact', 'new_rule', 'confirmation')),
  constraint memory_proposals_status check (status in ('waiting', 'accepted', 'declined')),
  constraint memory_proposals_decided check ((status = 'waiting') = (decided_at is null))
);
create index memory_proposals_waiting on memory_proposals (tenant_id, created_at, id)
where status = 'waiting';

-- memory_claims --
-- Episodes an agent has claimed for consolidation, with the facts, rules and entities it was shown.
create table memory_claims (
  tenant_id text not null,
  id uuid not null,
  butler text not null,
  episode_ids uuid[] not null,
  fact_ids uuid[] not null,
  rule_ids uuid[] not null,
  created_at timestamptz not null,
  entity_ids uuid[] not null default '{}',
  primary key (tenant_id, id)
);

-- memory_conflicts --
-- Pairs of facts that contradict each other or say the same, and how they were settled.
create table memory_conflicts (
  tenant_id text not null,
  id uuid not null,
  kind text not null,
  newer_id uuid not null,
  older_id uuid not null,
  why text not null,
  score double precision not null,
  created_at timestamptz not null,
  settled_as text,
  settled_at timestamptz,
  settled_by text,
  primary key (tenant_id, id),
  constraint memory_conflicts_kind check (kind in ('conflict', 'same')),
  constraint memory_conflicts_settled_as
    check (settled_as in ('newer', 'older', 'both', 'since', 'same')),
  constraint memory_conflicts_settled check ((settled_as is null) = (settled_at is null)),
  constraint memory_conflicts_newer_same_tenant foreign key (tenant_id, newer_id)
    references facts (tenant_id, id) on delete cascade deferrable,
  constraint memory_conflicts_older_same_tenant foreign key (tenant_id, older_id)
    references facts (tenant_id, id) on delete cascade deferrable
);
create unique index memory_conflicts_once
on memory_conflicts (tenant_id, least(newer_id, older_id), greatest(newer_id, older_id));
create index memory_conflicts_newer on memory_conflicts (tenant_id, newer_id);
create index memory_conflicts_older on memory_conflicts (tenant_id, older_id);
create index memory_conflicts_open on memory_conflicts (tenant_id, created_at desc, id)
where settled_as is distinct from 'both';

-- memory_predicates --
-- Whether a predicate holds one value at a time or many, as somebody stated or settling showed.
create table memory_predicates (
  tenant_id text not null,
  predicate text not null,
  holds text not null,
  told boolean not null,
  told_by text not null,
  created_at timestamptz not null,
  primary key (tenant_id, predicate),
  constraint memory_predicates_holds check (holds in ('one', 'many'))
);

-- projects --
-- What sessions work in, known by `keys`; moved into another project, or visible from all.
create table projects (
  tenant_id text not null,
  id text not null,
  name text not null,
  keys text[] not null,
  places text[] not null,
  shared boolean not null default false,
  moved_to text,
  created_at timestamptz not null,
  last_seen_at timestamptz not null,
  primary key (tenant_id, id),
  constraint projects_known check (cardinality(keys) > 0),
  constraint projects_moved foreign key (tenant_id, moved_to)
    references projects (tenant_id, id) deferrable
);

-- are_both_current --
-- Whether two facts are both active with overlapping validity windows.
create or replace function are_both_current(one facts, other facts) returns boolean
language sql immutable parallel safe
return (one).validity = 'active' and (other).validity = 'active'
  and tstzrange((one).valid_from, (one).valid_to)
    && tstzrange((other).valid_from, (other).valid_to);
