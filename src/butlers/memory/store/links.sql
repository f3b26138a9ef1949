-- insert --
-- A link from a memory to another; one that exists already is left as it is.
insert into memory_links ({link})
values (:tenant_id, :source_type, :source_id, :target_type, :target_id, :relation, :now)
on conflict do nothing

-- get_relation --
-- How one memory is linked to another; two share one link.
select relation from memory_links
where tenant_id = :tenant_id and source_type = :source_type and source_id = :source_id
  and target_type = :target_type and target_id = :target_id

-- supersede --
-- Links from winner to loser; two memories share one link, so an older kind gives way.
insert into memory_links ({link})
select f.tenant_id, 'fact', settled.winner, 'fact', f.id, 'supersedes', :now
from facts f
join unnest(:winners::uuid[], :losers::uuid[]) as settled (winner, loser) on settled.loser = f.id
where f.tenant_id = :tenant_id
on conflict on constraint memory_links_pkey
do update set relation = excluded.relation

-- keep_sources --
-- What was drawn from episodes still says so once they are gone.
insert into memory_links ({link})
select drawn.tenant_id, drawn.memory_type, drawn.id, 'episode', drawn.episode_id, 'derived_from',
  :now
from (
  select tenant_id, 'fact' as memory_type, id, source_episode_id as episode_id from facts
  where tenant_id = :tenant_id and source_episode_id = any(:ids)
  union all
  select tenant_id, 'rule', id, source_episode_id from rules
  where tenant_id = :tenant_id and source_episode_id = any(:ids)
) drawn
on conflict do nothing

-- find_sources --
-- What a fact was drawn from.
select target_type as kind, target_id as id from memory_links
where tenant_id = :tenant_id and source_type = 'fact' and source_id = :id
  and relation = 'derived_from'
order by target_type, target_id

-- find --
-- The links of one memory in the wanted directions, a thousand at most.
select source_type, source_id, target_type, target_id, relation, created_at
from memory_links
where tenant_id = :tenant_id
  and (
    (:outgoing::boolean and source_type = :memory_type and source_id = :memory_id)
    or (:incoming::boolean and target_type = :memory_type and target_id = :memory_id)
  )
order by created_at, source_id, target_id, source_type, target_type
limit 1000
