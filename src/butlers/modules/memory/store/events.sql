-- append --
-- One line of the audit stream.
insert into memory_events
  (id, tenant_id, event_type, actor, request_id, memory_type, memory_id, payload, created_at)
values
  (:id, :tenant_id, :event_type, :actor, :request_id, :memory_type, :memory_id, :payload, :now)

-- history --
-- Everything that ever happened to one memory, in the order it happened.
select id, event_type, actor, request_id, memory_type, memory_id, payload, created_at
from memory_events
where tenant_id = :tenant_id and memory_id = :memory_id
order by sequence

-- recent --
-- The newest events of a tenant.
select id, event_type, actor, request_id, memory_type, memory_id, payload, created_at
from memory_events
where tenant_id = :tenant_id
order by sequence desc
limit :limit
