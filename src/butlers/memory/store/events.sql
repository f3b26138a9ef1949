-- append --
-- Lines of the audit stream, in the order given; whose they are, the transaction has proven.
select append_events(
  :tenant_id, :event_type, :request_id, :memory_type, :now, :ids, :memory_ids, :payloads
)

-- find_history --
-- Everything that ever happened to one memory, links to it included, in the order it happened.
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

-- find_before --
-- The newest events of a tenant, or those before one of them, newest first.
select {event}
from memory_events
where tenant_id = :tenant_id
  and sequence < coalesce(
    (select known.sequence from memory_events known
     where known.tenant_id = :tenant_id and known.id = :event_id::uuid),
    9223372036854775807
  )
order by sequence desc
limit :limit

-- find_after --
-- What happened after one event, the first to happen first.
select {event}
from memory_events
where tenant_id = :tenant_id
  and sequence > (
    select known.sequence from memory_events known
    where known.tenant_id = :tenant_id and known.id = :event_id
  )
order by sequence
limit :limit

-- find_stored_by --
-- The memories that one actor has stored since an instant, in the order it did.
select memory_id
from memory_events
where tenant_id = :tenant_id and created_at >= :since and actor = :actor
  and event_type in ('episode_created', 'fact_created', 'rule_created', 'entity_created')
order by sequence
limit :limit

-- exists --
-- Whether the tenant has this event.
select true from memory_events where tenant_id = :tenant_id and id = :id

-- find_moves --
-- How many facts and episodes went from which state to which, by day; what was before the first
-- day counts as of that day.
select memory_type, event_type,
  greatest((created_at at time zone 'UTC')::date, :first_day::date) as day,
  payload ->> 'from' as was, payload ->> 'to' as became, count(*) as count
from memory_events
where tenant_id = :tenant_id and memory_type in ('fact', 'episode')
  and (created_at at time zone 'UTC')::date <= :last_day::date
group by 1, 2, 3, 4, 5
order by 1, 2, 3, 4, 5
