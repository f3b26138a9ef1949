-- record --
-- Insert what a session was given.
insert into injections (
  tenant_id, id, session_id, project, agent, at, event, asked, outcome, reason, tokens,
  milliseconds, memory_ids, lines, left_out
)
values (
  :tenant_id, :id, :session_id, :project, :agent, :at, :event, :asked, :outcome, :reason, :tokens,
  :milliseconds, :memory_ids, :lines, :left_out
)
on conflict (tenant_id, id) do nothing

-- {row} --
-- An injection.
id, session_id, project, agent, at, event, asked, outcome, reason, tokens, milliseconds, lines,
left_out, verdicts

-- of_session --
-- What a session was given, oldest first.
select {row}
from injections
where tenant_id = :tenant_id and session_id = :session_id
order by at, id

-- find_since --
-- What all sessions were given since an instant, oldest first.
select {row}
from injections
where tenant_id = :tenant_id and at >= :since
order by at, id

-- find_given --
-- Which sessions were given some memories, the first and the last time.
select g.memory_id, i.session_id, i.agent, min(i.at) as first_at, max(i.at) as last_at
from injections i
cross join lateral unnest(i.memory_ids) as g (memory_id)
where i.tenant_id = :tenant_id and i.outcome = 'delivered' and i.memory_ids && :ids::uuid[]
  and g.memory_id = any(:ids)
group by g.memory_id, i.session_id, i.agent
order by g.memory_id, i.session_id, i.agent

-- find_known --
-- Which of these are recorded.
select id from injections where tenant_id = :tenant_id and id = any(:ids) order by id

-- fail --
-- Mark the injection that an agent did not wait for as failed, under the id of the hook's note.
update injections
set id = :id, outcome = 'failed', reason = :reason
where tenant_id = :tenant_id and id = (
  select id from injections
  where tenant_id = :tenant_id and session_id = :session_id and event = :event
    and at between :after and :before
  order by at desc limit 1
)

-- erase --
-- Delete injections.
delete from injections where tenant_id = :tenant_id and id = any(:ids)
