-- job_schedules --
-- Since when a job has its schedule.
create table job_schedules (
  job text primary key,
  cron text not null,
  since timestamptz not null
);

-- job_runs --
-- A job that is running cannot be started again, whatever its schedule says.
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
  constraint job_runs_outcome check (outcome in ('running', 'ok', 'failed', 'skipped')),
  constraint job_runs_finished check ((outcome = 'running') = (finished_at is null))
);
create unique index job_runs_never_overlap on job_runs (job) where outcome = 'running';
create index job_runs_newest on job_runs (job, id desc);

-- language_model_spend --
-- What each completion was for and what it cost.
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
  constraint language_model_spend_account check (account in ('modules', 'sessions')),
  constraint language_model_spend_outcome check (outcome in ('running', 'ok', 'failed'))
);
create index language_model_spend_day on language_model_spend (day);

-- rights --
-- For the role that serves requests.
grant usage on schema public to butlers_runtime;
grant select, insert, update on job_schedules to butlers_runtime;
grant select, insert, update, delete on job_runs to butlers_runtime;
grant select, insert, update on language_model_spend to butlers_runtime;
