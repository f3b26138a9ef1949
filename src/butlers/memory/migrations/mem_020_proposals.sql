-- batch --
-- How many are read together at the next try; null for as many as there is room for.
alter table episodes add column consolidation_batch integer
constraint episodes_consolidation_batch check (consolidation_batch >= 1);

-- proposals --
-- What was drawn from episodes and is not taken without somebody's yes. What was declined is kept,
-- so that it is not proposed again.
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
  constraint memory_proposals_tenant_named check (tenant_id <> ''),
  constraint memory_proposals_kind
    check (kind in ('new_fact', 'updated_fact', 'new_rule', 'confirmation')),
  constraint memory_proposals_status check (status in ('waiting', 'accepted', 'declined')),
  constraint memory_proposals_decided check ((status = 'waiting') = (decided_at is null))
);
create index memory_proposals_waiting on memory_proposals (tenant_id, created_at, id)
where status = 'waiting';

-- claims --
-- What an agent was shown that reads episodes with a model of its own: its answer may touch nothing
-- else, and means it by its number.
create table memory_claims (
  tenant_id text not null,
  id uuid not null,
  butler text not null,
  episode_ids uuid[] not null,
  fact_ids uuid[] not null,
  rule_ids uuid[] not null,
  created_at timestamptz not null,
  primary key (tenant_id, id),
  constraint memory_claims_tenant_named check (tenant_id <> '')
);

-- own_tenant --
-- As closed as the memories they are about.
alter table {table} enable row level security, force row level security;
create policy {table}_own_tenant on {table}
using (tenant_id = current_setting('butlers.tenant', true))
with check (tenant_id = current_setting('butlers.tenant', true));

-- rights --
-- Proposals are decided, claims are forgotten after a while.
grant select, insert, update on memory_proposals to butlers_runtime;
grant select, insert, delete on memory_claims to butlers_runtime;
