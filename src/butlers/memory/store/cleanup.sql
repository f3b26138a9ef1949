-- take_turn --
-- Cleanups of one tenant take turns, so that two of them do not both remove the same surplus.
select pg_advisory_xact_lock(hashtextextended(:key, 0))

-- claim_expired --
-- Expired episodes, the longest expired first; not those that a consolidation is reading now.
select id from episodes
where tenant_id = :tenant_id and expires_at < :now
  and (leased_until is null or leased_until <= :now)
order by expires_at, id
limit :limit
for update skip locked

-- claim_surplus --
-- The oldest consolidated episodes beyond what may be kept, never one that still has to be read.
select id from episodes
where tenant_id = :tenant_id and consolidation_status = 'consolidated'
  and (leased_until is null or leased_until <= :now)
order by created_at, id
limit least(
  :limit, greatest((select count(*) from episodes where tenant_id = :tenant_id) - :kept, 0)
)
for update skip locked

-- keep_sources --
-- What was drawn from episodes still says so once they are gone.
insert into memory_links
  (tenant_id, source_type, source_id, target_type, target_id, relation, created_at)
select :tenant_id, drawn.memory_type, drawn.id, 'episode', drawn.episode_id, 'derived_from', :now
from (
  select 'fact' as memory_type, id, source_episode_id as episode_id from facts
  where tenant_id = :tenant_id and source_episode_id = any(:ids)
  union all
  select 'rule', id, source_episode_id from rules
  where tenant_id = :tenant_id and source_episode_id = any(:ids)
) drawn
on conflict do nothing

-- remove --
-- Claimed episodes are gone for good; what they were.
delete from episodes
where tenant_id = :tenant_id and id = any(:ids)
returning id, butler, consolidation_status, created_at, expires_at

-- remaining --
-- How many episodes the tenant has.
select count(*) from episodes where tenant_id = :tenant_id
