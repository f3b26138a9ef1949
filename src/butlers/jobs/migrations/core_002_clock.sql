-- partial --
-- A run that changed something is not a failure, whatever else it met.
alter table job_runs
drop constraint job_runs_outcome,
add constraint job_runs_outcome
  check (outcome in ('running', 'ok', 'partial', 'failed', 'skipped'));

-- clock_believed --
-- The latest instant that was believed, and how long the machine had been up then; to begin with,
-- when a job ran last.
create table clock_believed (
  is_last boolean primary key default true,
  at timestamptz not null,
  boot text not null,
  seconds double precision not null,
  constraint clock_believed_once check (is_last)
);
insert into clock_believed (at, boot, seconds)
select max(started_at), '', 0 from job_runs having count(*) > 0;
grant select, insert, update on clock_believed to butlers_runtime;
