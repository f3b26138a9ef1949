-- injections --
-- What a session was given at its start or a prompt, what was left out, and what became of it.
create table injections (
  tenant_id text not null,
  id uuid not null,
  session_id text not null,
  project text not null,
  agent text not null,
  at timestamptz not null,
  event text not null,
  asked text not null,
  outcome text not null,
  reason text,
  tokens integer not null,
  milliseconds integer not null,
  memory_ids uuid[] not null,
  lines jsonb not null,
  left_out jsonb not null,
  verdicts jsonb not null default '{}',
  primary key (tenant_id, id),
  constraint injections_session foreign key (tenant_id, session_id)
    references session_log (tenant_id, id) on delete cascade,
  constraint injections_event check (event in ('start', 'prompt', 'tool')),
  constraint injections_outcome check (outcome in ('delivered', 'nothing', 'late', 'failed'))
);
create index injections_of_session on injections (tenant_id, session_id, at);
create index injections_newest on injections (tenant_id, at desc);
create index injections_memories on injections using gin (memory_ids);
alter table injections enable row level security, force row level security;
create policy injections_own_tenant on injections
using (tenant_id = (select proven_tenant())) with check (tenant_id = (select proven_tenant()));

-- rights --
-- What requests may change.
grant select, insert, update, delete on injections to butlers_runtime;
