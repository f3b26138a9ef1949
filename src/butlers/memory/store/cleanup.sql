-- {is_evidence} --
-- Whether something waits for a person that was drawn from an episode.
(
    exists (
      select from memory_proposals p
      where p.tenant_id = :tenant_id and p.status = 'waiting'
        and episodes.id = any(p.source_episode_ids)
    )
    or exists (
      select from facts f
      where f.tenant_id = :tenant_id and f.source_episode_id = episodes.id
        and f.validity = 'quarantined'
    )
    or exists (
      select from rules r
      where r.tenant_id = :tenant_id and r.source_episode_id = episodes.id
        and rule_state(r.metadata, r.quarantined) = 'quarantined'
    )
  )

-- claim_expired --
-- Expired episodes, the longest expired first; not those that a consolidation is reading now.
select id from episodes
where tenant_id = :tenant_id and expires_at < :now
  and (leased_until is null or leased_until <= :now) and not {is_evidence}
order by expires_at, id
limit :limit
for update skip locked

-- claim_surplus --
-- The oldest consolidated episodes beyond what may be kept, never one that still has to be read.
select id from episodes
where tenant_id = :tenant_id and consolidation_status = 'consolidated' and quarantined is null
  and (leased_until is null or leased_until <= :now) and not {is_evidence}
order by created_at, id
limit least(
  :limit, greatest((select count(*) from episodes where tenant_id = :tenant_id) - :kept, 0)
)
for update skip locked

-- remaining --
-- How many episodes the tenant has.
select count(*) from episodes where tenant_id = :tenant_id
