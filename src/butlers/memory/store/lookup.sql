-- find_between --
-- What a tenant has in a range of ids, and what it had that the audit stream remembers.
select kind, id
from (
  select 'episode' as kind, id from episodes
  where tenant_id = :tenant_id and id >= :low and id <= :high
  union
  select 'fact', id from facts where tenant_id = :tenant_id and id >= :low and id <= :high
  union
  select 'rule', id from rules where tenant_id = :tenant_id and id >= :low and id <= :high
  union
  select 'entity', id from entities where tenant_id = :tenant_id and id >= :low and id <= :high
  union
  select memory_type, memory_id from memory_events
  where tenant_id = :tenant_id and memory_id >= :low and memory_id <= :high
    and memory_type <> 'link'
) known
order by id, kind
limit :limit
