-- append --
-- Many lines of the audit stream at once, in the order given.
insert into memory_events
  (id, tenant_id, event_type, actor, request_id, memory_type, memory_id, payload, created_at)
select happened.id, :tenant_id, :event_type, :actor, :request_id, :memory_type,
  happened.memory_id, happened.payload, :now
from unnest(:ids::uuid[], :memory_ids::uuid[], :payloads::jsonb[])
  with ordinality as happened (id, memory_id, payload, place)
order by happened.place
