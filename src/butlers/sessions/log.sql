-- write --
-- Insert a session, or update it; memories told and stored are added.
insert into session_log (
  tenant_id, id, kind, asked_by, agent, model, project, asked, outcome, reason, worker,
  started_at, ends_by, ended_at, input_tokens, output_tokens, cost_usd, had_memory, had_tools,
  told, stored
)
values (
  :tenant_id, :id, :kind, :asked_by, :agent, :model, :project, :asked, :outcome, :reason, :worker,
  :started_at, :ends_by, :ended_at, :input_tokens, :output_tokens, :cost_usd, :had_memory,
  :had_tools, :told, :stored
)
on conflict (tenant_id, id) do update set
  model = excluded.model,
  asked = coalesce(nullif(session_log.asked, ''), excluded.asked),
  outcome = excluded.outcome,
  reason = excluded.reason,
  ended_at = excluded.ended_at,
  input_tokens = coalesce(excluded.input_tokens, session_log.input_tokens),
  output_tokens = coalesce(excluded.output_tokens, session_log.output_tokens),
  cost_usd = coalesce(excluded.cost_usd, session_log.cost_usd),
  had_memory = session_log.had_memory and excluded.had_memory,
  told = array(select distinct unnest(session_log.told || excluded.told)),
  stored = array(select distinct unnest(session_log.stored || excluded.stored))
where session_log.kind = excluded.kind and session_log.asked_by = excluded.asked_by

-- prune --
-- Delete all but the newest sessions of a tenant.
delete from session_log
where tenant_id = :tenant_id and (started_at, id) <= (
  select started_at, id from session_log
  where tenant_id = :tenant_id
  order by started_at desc, id desc limit 1 offset :kept
)

-- {row} --
-- A session; one that runs for longer than it may has lost its process.
id, kind, asked_by, agent, model, project, asked,
case when outcome = 'running' and ends_by < :now then 'interrupted' else outcome end as outcome,
reason, worker, started_at, ends_by, ended_at, input_tokens, output_tokens, cost_usd,
had_memory, had_tools, told, stored

-- find --
-- The newest sessions of a tenant, of one kind or of all.
select {row}
from session_log
where tenant_id = :tenant_id and (:kind::text is null or kind = :kind)
order by started_at desc, id desc
limit :limit

-- latest --
-- The newest sessions of agents, and when each was last given something.
select id, agent, started_at as session_at, (
  select max(at) from injections
  where tenant_id = :tenant_id and session_id = session_log.id and outcome = 'delivered'
) as memory_at
from session_log
where tenant_id = :tenant_id and kind = 'agent'
order by started_at desc, id desc
limit :limit

-- get --
-- The sessions whose id has this prefix, at most two.
select {row}
from session_log
where tenant_id = :tenant_id and starts_with(id, :id)
order by id
limit 2

-- running --
-- The processes with running sessions.
select distinct worker
from session_log
where tenant_id = :tenant_id and outcome = 'running'
order by worker

-- interrupt --
-- Mark the sessions of dead processes as interrupted.
update session_log
set outcome = 'interrupted', ended_at = :now, reason = :reason
where tenant_id = :tenant_id and outcome = 'running' and worker = any(:workers)

-- erase --
-- Delete sessions.
delete from session_log where tenant_id = :tenant_id and id = any(:ids)
