-- job_schedules --
-- Since when a job has its schedule.
create table job_schedules (
  job text primary key,
  cron text not null,
  since timestamptz not null
);

-- job_runs --
-- Runs of jobs. A job that is running cannot be started again, whatever its schedule says.
create table job_runs (
  id bigint generated always as identity primary key,
  job text not null,
  fire_at timestamptz not null,
  cause text not null,
  outcome text not null,
  attempt integer not null default 1,
  worker text not null,
  lease_until timestamptz not null,
  started_at timestamptz not null,
  finished_at timestamptz,
  error text,
  result jsonb,
  constraint job_runs_once unique (job, fire_at),
  constraint job_runs_cause check (cause in ('schedule', 'request')),
  constraint job_runs_outcome
    check (outcome in ('running', 'ok', 'partial', 'failed', 'skipped')),
  constraint job_runs_finished check ((outcome = 'running') = (finished_at is null))
);
create unique index job_runs_never_overlap on job_runs (job) where outcome = 'running';
create index job_runs_newest on job_runs (job, id desc);

-- language_model_spend --
-- What each completion was for and what it cost; `tenant_id` is empty for the butler itself.
create table language_model_spend (
  id bigint generated always as identity primary key,
  day date not null,
  account text not null,
  runtime text not null,
  label text not null,
  outcome text not null,
  started_at timestamptz not null,
  ends_by timestamptz not null,
  finished_at timestamptz,
  input_tokens bigint,
  output_tokens bigint,
  cost_usd double precision,
  tenant_id text not null default '',
  constraint language_model_spend_account check (account in ('modules', 'sessions')),
  constraint language_model_spend_outcome
    check (outcome in ('running', 'ok', 'failed', 'unreached'))
);
create index language_model_spend_day on language_model_spend (day);
create index language_model_spend_latest on language_model_spend (account, id desc);

-- clock_believed --
-- The latest time that was believed, and how long the machine had been up then.
create table clock_believed (
  is_last boolean primary key default true,
  at timestamptz not null,
  boot text not null,
  seconds double precision not null,
  constraint clock_believed_once check (is_last)
);

-- clock_boots --
-- What was believed of each machine's clock since its boot.
create table clock_boots (
  boot text primary key,
  at timestamptz not null,
  seconds double precision not null
);

-- session_log --
-- What is kept of a session: never its text, only a masked beginning of the question.
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
alter table session_log enable row level security, force row level security;
create policy session_log_own_tenant on session_log
using (tenant_id = (select proven_tenant())) with check (tenant_id = (select proven_tenant()));

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

-- tokens --
-- Who may call. Requests find a token by its digest (find_token); only the owner reads the table.
create table tokens (
  digest text primary key,
  id text not null unique,
  record text not null,
  used_at timestamptz
);
revoke all on tokens from public;

-- sign_ins --
-- Browsers that signed in with a token; deleted with it.
create table sign_ins (
  digest text primary key,
  token text not null references tokens on delete cascade,
  csrf text not null,
  expires_at timestamptz not null
);
create index sign_ins_newest on sign_ins (token, expires_at desc);
revoke all on sign_ins from public;

-- rights --
-- What requests may change.
grant usage on schema public to butlers_runtime;
grant select, insert, update on job_schedules, job_runs, language_model_spend, clock_believed,
  clock_boots, session_log, injections
to butlers_runtime;
grant delete on job_runs, session_log, injections to butlers_runtime;

-- find_token --
-- The record of a token, by its digest.
create or replace function find_token(given text) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp
return (select record from public.tokens where digest = given);

-- note_token --
-- Record the use of a token, to the minute. Concurrent callers do not wait for each other.
create or replace function note_token(given text, at timestamptz) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp
begin atomic
  update public.tokens set used_at = at
  where digest in (
    select digest from public.tokens
    where digest = given and (used_at is null or used_at < at - interval '1 minute')
    for update skip locked
  );
end;

-- begin_sign_in --
-- Sign a browser in with a token; the newest hundred of a token are kept.
create or replace function begin_sign_in(
  given text, by_token text, secret text, ends_at timestamptz, at timestamptz
) returns void language sql volatile security definer set search_path = pg_catalog, pg_temp
begin atomic
  delete from public.sign_ins where expires_at <= at or digest in (
    select digest from public.sign_ins where token = by_token order by expires_at desc offset 99
  );
  insert into public.sign_ins (digest, token, csrf, expires_at)
  values (given, by_token, secret, ends_at);
end;

-- find_sign_in --
-- A browser that is signed in, and the token it signed in with.
create or replace function find_sign_in(given text, at timestamptz)
returns table (csrf text, expires_at timestamptz, record text)
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
  select s.csrf, s.expires_at, t.record
  from public.sign_ins s join public.tokens t on t.digest = s.token
  where s.digest = given and s.expires_at > at;
end;

-- end_sign_in --
-- Sign a browser out.
create or replace function end_sign_in(given text) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp
begin atomic
  delete from public.sign_ins where digest = given;
end;

-- {of_requests} --
-- Functions that requests call, and nobody else.
find_token(text), note_token(text, timestamptz), find_sign_in(text, timestamptz),
  begin_sign_in(text, text, text, timestamptz, timestamptz), end_sign_in(text)

-- function_rights --
-- Who may call these functions.
revoke all on function {of_requests} from public;
grant execute on function {of_requests} to butlers_runtime;
