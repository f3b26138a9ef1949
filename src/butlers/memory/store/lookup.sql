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

-- find_scopes --
-- The scope of each memory, an episode's being its butler; of an entity, those of facts about it.
select id, scope from facts where tenant_id = :tenant_id and id = any(:ids::uuid[])
union
select id, scope from rules where tenant_id = :tenant_id and id = any(:ids::uuid[])
union
select id, butler from episodes where tenant_id = :tenant_id and id = any(:ids::uuid[])
union
select episode_id, episode ->> 'butler' from binned_episodes
where tenant_id = :tenant_id and episode_id = any(:ids::uuid[])
union
select entity_id, scope from facts where tenant_id = :tenant_id and entity_id = any(:ids::uuid[])
order by id, scope
