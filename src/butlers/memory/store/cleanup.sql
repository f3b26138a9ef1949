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

-- remaining --
-- How many episodes the tenant has.
select count(*) from episodes where tenant_id = :tenant_id
