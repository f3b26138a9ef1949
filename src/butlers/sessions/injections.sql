-- find_uses --
-- What became of memories each time that a prompt was given them, newest first.
select memory_id, verdicts ->> memory_id::text as verdict, asked
from injections, unnest(memory_ids) as memory_id
where tenant_id = :tenant_id and memory_ids && :ids and memory_id = any(:ids)
  and at >= :since and event <> 'start' and verdicts ->> memory_id::text is not null
order by at desc
limit :limit

-- find_given --
-- The memories that a session was given since it last started.
select distinct memory_id
from injections, unnest(memory_ids) as memory_id
where tenant_id = :tenant_id and session_id = :session_id and at >= coalesce(
  (
    select max(at) from injections
    where tenant_id = :tenant_id and session_id = :session_id and event = 'start'
  ),
  '-infinity'
)
order by memory_id
