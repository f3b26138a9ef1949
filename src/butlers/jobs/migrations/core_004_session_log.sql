-- session_log --
-- What is kept of a session: never its text, only a masked beginning of what was asked.
create table session_log (
  tenant_id text not null,
  id text not null,
  kind text not null,
  asked_by text not null,
  agent text not null,
  model text not null,
  project text not null,
  asked text not null,
  outcome text not null,
  reason text,
  worker text not null,
  started_at timestamptz not null,
  ends_by timestamptz,
  ended_at timestamptz,
  input_tokens bigint,
  output_tokens bigint,
  cost_usd double precision,
  had_memory boolean not null,
  had_tools boolean not null,
  told uuid[] not null,
  stored uuid[] not null,
  primary key (tenant_id, id),
  constraint session_log_tenant_named check (tenant_id <> ''),
  constraint session_log_kind check (kind in ('ask', 'schedule', 'agent')),
  constraint session_log_outcome
    check (outcome in ('running', 'ok', 'failed', 'cut_off', 'interrupted')),
  constraint session_log_ended check ((outcome = 'running') = (ended_at is null))
);
create index session_log_newest on session_log (tenant_id, started_at desc, id desc);

-- own_tenant --
-- A tenant's rows are invisible and untouchable outside a transaction that names it.
alter table session_log enable row level security, force row level security;
create policy session_log_own_tenant on session_log
using (tenant_id = current_setting('butlers.tenant', true))
with check (tenant_id = current_setting('butlers.tenant', true));
grant select, insert, update, delete on session_log to butlers_runtime;
