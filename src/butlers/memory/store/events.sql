-- append --
-- Append events in the order given, for the proven tenant and actor.
select append_events(
  :tenant_id, :event_type, :request_id, :memory_type, :now, :ids, :memory_ids, :payloads
)

-- find_history --
-- Find every event of a memory, and of links to it, oldest first.
select {event}
from (
  select {event}, sequence
  from memory_events
  where tenant_id = :tenant_id and memory_id = :memory_id
  union all
  select {event}, sequence
  from memory_events
  where tenant_id = :tenant_id and event_type = 'link_created' and exists (
    select from memory_links l
    where l.tenant_id = :tenant_id and l.target_type in ('episode', 'fact', 'rule')
      and l.target_id = :memory_id and l.source_id = memory_id
      and l.source_type = payload ->> 'source_type'
      and l.target_type = payload ->> 'target_type'
      and l.target_id::text = payload ->> 'target_id'
  )
) story
order by sequence

-- get_sequence --
-- The place of an event in the audit log.
select sequence from memory_events where tenant_id = :tenant_id and id = :id

-- find_before --
-- Find the newest events of a tenant, or those before one of them, newest first.
select {event}
from memory_events
where tenant_id = :tenant_id and sequence < coalesce(:sequence::bigint, 9223372036854775807)
order by sequence desc
limit :limit

-- find_after --
-- Find the events after one of them, oldest first.
select {event}
from memory_events
where tenant_id = :tenant_id and sequence > :sequence
order by sequence
limit :limit

-- find_stored_by --
-- Find the memories that one actor has stored since an instant, oldest first.
select memory_id
from memory_events
where tenant_id = :tenant_id and created_at >= :since and actor = :actor
  and event_type in ('episode_created', 'fact_created', 'rule_created', 'entity_created')
  and not jsonb_exists(payload, 'piece')
order by sequence
limit :limit

-- find_moves --
-- How many facts and whole episodes changed state, by day; earlier ones count on the first day.
select memory_type, event_type,
  greatest((created_at at time zone 'UTC')::date, :first_day::date) as day,
  payload ->> 'from' as was, payload ->> 'to' as became, count(*) as count
from memory_events
where tenant_id = :tenant_id and memory_type in ('fact', 'episode')
  and not jsonb_exists(payload, 'piece')
  and (created_at at time zone 'UTC')::date <= :last_day::date
group by 1, 2, 3, 4, 5
order by 1, 2, 3, 4, 5

-- verify_chain --
-- Check a stretch of the chain: gaps, missing or changed events, and erased ones not recorded.
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
-- Find events that are in no chain, because somebody inserted them by hand.
select e.id as event_id, e.created_at as at, count(*) over () as faulty
from memory_events e
where e.tenant_id = :tenant_id and not exists (
  select from memory_event_chain c where c.tenant_id = :tenant_id and c.event_id = e.id
)
order by e.sequence
limit :most

-- get_chain_head --
-- Load the last link of the chain.
select number, encode(hash, 'hex') as head
from memory_event_chain
where tenant_id = :tenant_id
order by number desc
limit 1

-- get_chain_number --
-- Find the place of a hash in the chain.
select number
from memory_event_chain
where tenant_id = :tenant_id and hash = decode(:head, 'hex')
order by number
limit 1
