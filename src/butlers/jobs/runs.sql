-- take_turn --
-- Lock decisions about a job until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('butlers.job.' || :job::text, 0))

-- see_schedule --
-- A schedule counts from when it was first seen; if it changed or is in the future, from now.
insert into job_schedules (job, cron, since)
values (:job, :cron, :now)
on conflict (job) do update set cron = excluded.cron, since = excluded.since
where job_schedules.cron <> excluded.cron or job_schedules.since > excluded.since

-- since --
-- Ticks of a job count from here on.
select since from job_schedules where job = :job

-- last_fire_at --
-- The newest tick of a job that was handled; those in the future, of a wrong clock, do not count.
select max(fire_at) from job_runs where job = :job and fire_at <= :now

-- held --
-- The run of a job that has not ended, if there is one.
select id, job, fire_at, cause, attempt, worker, lease_until
from job_runs
where job = :job and outcome = 'running'

-- start --
-- Start a run.
insert into job_runs (job, fire_at, cause, outcome, worker, lease_until, started_at)
values (:job, :fire_at, :cause, 'running', :worker, :lease_until, :now)
returning id

-- skip --
-- A tick that is not run, with the reason.
insert into job_runs
  (job, fire_at, cause, outcome, worker, lease_until, started_at, finished_at, error)
values (:job, :fire_at, 'schedule', 'skipped', :worker, :now, :now, :now, :reason)

-- take_over --
-- Start a run again whose process is gone.
update job_runs
set worker = :worker, attempt = attempt + 1, started_at = :now, lease_until = :lease_until
where id = :id and attempt = :attempt and outcome = 'running'

-- renew --
-- Extend the lease of a run; touches nothing if it is no longer ours.
update job_runs
set lease_until = :lease_until
where id = :id and attempt = :attempt and outcome = 'running'

-- settle --
-- End a run; touches nothing if it is no longer ours.
update job_runs
set outcome = :outcome, finished_at = :now, error = :error, result = :result
where id = :id and attempt = :attempt and outcome = 'running'

-- prune --
-- Delete all but the newest runs of a job, by id: clocks may have been wrong.
delete from job_runs
where job = :job and outcome <> 'running' and id <= (
  select id from job_runs where job = :job order by id desc limit 1 offset :kept
)

-- {run} --
-- The columns of a run.
id, job, fire_at, cause, outcome, attempt, worker, lease_until, started_at, finished_at,
error, result

-- latest --
-- The newest run of each job.
select distinct on (job) {run}
from job_runs
where job = any(:jobs)
order by job, id desc

-- history --
-- The newest runs of some jobs.
select {run}
from job_runs
where job = any(:jobs)
order by id desc
limit :limit
