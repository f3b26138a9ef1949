-- verify --
-- A stretch of the chain after a place, and the first places where it does not hold: an event that
-- is gone, places that are, and what says something else than it did or was erased unannounced.
with links as materialized (
  select c.number, c.event_id, c.marked, c.hash,
    coalesce(lag(c.number) over (order by c.number), 0) as number_before,
    coalesce(lag(c.hash) over (order by c.number), '') as hash_before
  from memory_event_chain c
  where c.tenant_id = :tenant_id and c.number >= :after and c.number <= :after + :limit
),
checked as materialized (
  select l.number, l.event_id, l.hash, e.created_at,
    not l.marked and has_digests(e.payload) as is_erased,
    case
      when l.number <> l.number_before + 1 then 'gap'
      when e.id is null then 'missing'
      when l.hash <> sha256(l.hash_before || event_digest(e, l.marked)) then 'changed'
      when not l.marked and has_digests(e.payload) and not exists (
        select from memory_events told
        where told.tenant_id = :tenant_id and told.event_type = 'memory_erased'
          and told.payload -> 'event_ids' ? l.event_id::text
      ) then 'erased'
    end as fault
  from links l
  left join memory_events e on e.tenant_id = :tenant_id and e.id = l.event_id
  where l.number > :after
)
select count(*) as events, count(*) filter (where is_erased) as erased,
  count(*) filter (where fault is not null) as faulty, max(number) as last_number,
  (
    select coalesce(jsonb_agg(jsonb_build_object(
      'number', f.number, 'event_id', f.event_id, 'at', f.created_at, 'fault', f.fault
    ) order by f.number), '[]')
    from (
      select number, event_id, created_at, fault from checked
      where fault is not null
      order by number
      limit :most
    ) f
  ) as faults
from checked
order by 1

-- find_unchained --
-- Events that stand in no chain: nobody told them the way events are told.
select e.id as event_id, e.created_at as at, count(*) over () as faulty
from memory_events e
where e.tenant_id = :tenant_id and not exists (
  select from memory_event_chain c where c.tenant_id = :tenant_id and c.event_id = e.id
)
order by e.sequence
limit :most

-- get_head --
-- The last link of the chain.
select number, encode(hash, 'hex') as head
from memory_event_chain
where tenant_id = :tenant_id
order by number desc
limit 1

-- get_number --
-- Where in the chain a hash stands.
select number
from memory_event_chain
where tenant_id = :tenant_id and hash = decode(:head, 'hex')
order by number
limit 1
