-- take_turn --
-- Whoever decides about a job decides alone, until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('butlers.job.' || :job::text, 0))

-- see_schedule --
-- A schedule counts from when it was first seen; one that changed, or lies ahead, counts anew.
insert into job_schedules (job, cron, since)
values (:job, :cron, :now)
on conflict (job) do update set cron = excluded.cron, since = excluded.since
where job_schedules.cron <> excluded.cron or job_schedules.since > excluded.since

-- since --
-- From when on the ticks of a job count.
select since from job_schedules where job = :job

-- last_fire_at --
-- The newest time a job was due and dealt with; what a clock that ran ahead left does not count.
select max(fire_at) from job_runs where job = :job and fire_at <= :now

-- held --
-- The run of a job that has not ended, if there is one.
select id, job, fire_at, cause, attempt, worker, lease_until
from job_runs
where job = :job and outcome = 'running'

-- start --
-- A run begins.
insert into job_runs (job, fire_at, cause, outcome, worker, lease_until, started_at)
values (:job, :fire_at, :cause, 'running', :worker, :lease_until, :now)
returning id

-- skip --
-- A tick that is not run, with the reason.
insert into job_runs
  (job, fire_at, cause, outcome, worker, lease_until, started_at, finished_at, error)
values (:job, :fire_at, 'schedule', 'skipped', :worker, :now, :now, :now, :reason)

-- take_over --
-- A run whose process is gone begins anew in another.
update job_runs
set worker = :worker, attempt = attempt + 1, started_at = :now, lease_until = :lease_until
where id = :id and attempt = :attempt and outcome = 'running'

-- renew --
-- The run goes on; touches nothing if it is no longer ours.
update job_runs
set lease_until = :lease_until
where id = :id and attempt = :attempt and outcome = 'running'

-- settle --
-- The run has ended; touches nothing if it is no longer ours.
update job_runs
set outcome = :outcome, finished_at = :now, error = :error, result = :result
where id = :id and attempt = :attempt and outcome = 'running'

-- prune --
-- Only the newest runs of a job are kept, in the order they were written, whatever clocks said.
delete from job_runs
where job = :job and outcome <> 'running' and id <= (
  select id from job_runs where job = :job order by id desc limit 1 offset :kept
)

-- latest --
-- The newest run of each job.
select distinct on (job)
  id, job, fire_at, cause, outcome, attempt, worker, lease_until, started_at, finished_at,
  error, result
from job_runs
where job = any(:jobs)
order by job, id desc

-- history --
-- The newest runs of some jobs.
select
  id, job, fire_at, cause, outcome, attempt, worker, lease_until, started_at, finished_at,
  error, result
from job_runs
where job = any(:jobs)
order by id desc
limit :limit
