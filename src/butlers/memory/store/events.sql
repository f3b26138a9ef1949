-- append --
-- One line of the audit stream.
insert into memory_events
  (id, tenant_id, event_type, actor, request_id, memory_type, memory_id, payload, created_at)
values
  (:id, :tenant_id, :event_type, :actor, :request_id, :memory_type, :memory_id, :payload, :now)

-- history --
-- Everything that ever happened to one memory, links to it included, in the order it happened.
select id, event_type, actor, request_id, memory_type, memory_id, payload, created_at
from (
  select id, event_type, actor, request_id, memory_type, memory_id, payload, created_at, sequence
  from memory_events
  where tenant_id = :tenant_id and memory_id = :memory_id
  union all
  select e.id, e.event_type, e.actor, e.request_id, e.memory_type, e.memory_id, e.payload,
    e.created_at, e.sequence
  from memory_links l
  join memory_events e on e.tenant_id = l.tenant_id and e.memory_id = l.source_id
    and e.event_type = 'link_created'
    and e.payload ->> 'source_type' = l.source_type
    and e.payload ->> 'target_type' = l.target_type
    and e.payload ->> 'target_id' = l.target_id::text
  where l.tenant_id = :tenant_id and l.target_type in ('episode', 'fact', 'rule')
    and l.target_id = :memory_id
) story
order by sequence

-- recent --
-- The newest events of a tenant.
select id, event_type, actor, request_id, memory_type, memory_id, payload, created_at
from memory_events
where tenant_id = :tenant_id
order by sequence desc
limit :limit
