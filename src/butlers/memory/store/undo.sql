-- {events_of_source} --
-- Events of a source; of an episode none (no id is null, as every node of a cluster can see).
tenant_id = :tenant_id and nullif(id, id) is not distinct from :episode_id::uuid
  and (:actor::text is null or actor = :actor)
  and (:session_key::text is null or request_id = :session_key)
  and (:since::timestamptz is null or created_at >= :since)

-- {linked_by_source} --
-- Whether the source drew a link `l`.
exists (
      select from memory_events
      where {events_of_source} and event_type = 'link_created' and memory_id = l.source_id
        and payload ->> 'target_id' = l.target_id::text
    )

-- {of_source} --
-- The memories of a source by what they say of themselves.
tenant_id = :tenant_id and session_id = :session_id::uuid
  and (:actor::text is null or stored_by = :actor)
  and (:since::timestamptz is null or created_at >= :since)

-- {confirming} --
-- What confirms a memory: a confirmation, or a mark that a rule helped, which tells when it did.
event_type in ('fact_confirmed', 'rule_confirmed', 'rule_marked_helpful')
  and jsonb_exists(payload, 'last_confirmed_at')

-- {stored} --
-- What a source stored and what was drawn from that, except by links it drew or facts inherited.
with recursive taken (kind, id) as (
  (
    select memory_type as kind, memory_id as id from memory_events
    where {events_of_source} and event_type in ('episode_created', 'fact_created', 'rule_created')
    union
    select 'episode', id from episodes where tenant_id = :tenant_id and id = :episode_id::uuid
    union
    select 'episode', id from episodes where {of_source}
    union
    select 'fact', id from facts where {of_source}
  )
  union
  select drawn.kind, drawn.id
  from taken
  cross join lateral (
    select 'fact' as kind, f.id from facts f
    where f.tenant_id = :tenant_id and f.source_episode_id = taken.id
    union all
    select 'rule', r.id from rules r
    where r.tenant_id = :tenant_id and r.source_episode_id = taken.id
    union all
    select l.source_type, l.source_id from memory_links l
    where l.tenant_id = :tenant_id and l.relation = 'derived_from'
      and l.target_type = taken.kind and l.target_id = taken.id and not {linked_by_source}
  ) drawn
  where not exists (
    select from memory_events c
    where c.tenant_id = :tenant_id and c.memory_id = drawn.id and c.event_type = 'fact_confirmed'
      and jsonb_exists(c.payload -> 'inherited', taken.id::text)
  )
)

-- find_stored --
-- What would be taken back, with how each stands now.
{stored}
select t.kind, t.id, coalesce(e.content, f.content, r.content) as content,
  case
    when e.id is not null then episode_state(e.expires_at, :now, e.quarantined)
    when f.id is not null then fact_state(f.validity, f.metadata)
    when r.id is not null then rule_state(r.metadata, r.quarantined)
    else 'gone'
  end as state
from taken t
left join episodes e on t.kind = 'episode' and e.tenant_id = :tenant_id and e.id = t.id
left join facts f on t.kind = 'fact' and f.tenant_id = :tenant_id and f.id = t.id
left join rules r on t.kind = 'rule' and r.tenant_id = :tenant_id and r.id = t.id
order by t.kind, t.id

-- find_confirmations --
-- What the source confirmed of others, itself or by its episodes alone.
{stored}
select c.id, c.memory_type as kind, c.memory_id, c.event_type
from memory_events c
where c.tenant_id = :tenant_id and {confirming} and c.memory_id not in (select id from taken)
  and (
    c.id in (select id from memory_events where {events_of_source} and {confirming})
    or c.payload -> 'episodes' <@ (select coalesce(jsonb_agg(id), '[]') from taken)
  )
order by c.sequence

-- find_history --
-- Every confirmation of a memory that was not taken back, in the order they were made.
select c.id, c.payload
from memory_events c
where c.tenant_id = :tenant_id and c.memory_id = :id
  and {confirming} and not exists (
    select from memory_events u
    where u.tenant_id = :tenant_id and u.memory_id = :id
      and u.event_type in ('fact_unconfirmed', 'rule_unconfirmed')
      and jsonb_exists(u.payload -> 'confirmations', c.id::text)
  )
order by c.sequence

-- unconfirm_fact --
-- A fact is as sure as it was before.
update facts
set last_confirmed_at = :confirmed_at, confidence = coalesce(:confidence, confidence),
  metadata = case
    when effective_confidence(
      coalesce(:confidence, confidence), decay_rate, :confirmed_at, :now
    ) < :threshold then metadata || '{"status": "fading"}' else metadata
  end
where tenant_id = :tenant_id and id = :id and validity = 'active'

-- unconfirm_rule --
-- A rule is as sure as it was before.
update rules
set last_confirmed_at = :confirmed_at,
  metadata = case
    when effective_confidence(
      confidence, decay_rate, :confirmed_at, :now, confidence_floor
    ) < :threshold then metadata || '{"status": "fading"}' else metadata
  end
where tenant_id = :tenant_id and id = :id

-- find_marks --
-- The marks of a source on the rules of others.
{stored}
select a.rule_id, a.id
from rule_applications a
where a.tenant_id = :tenant_id and nullif(id, id) is not distinct from :episode_id::uuid
  and a.rule_id not in (select id from taken)
  and (:actor::text is null or a.actor = :actor)
  and (:session_key::text is null or a.request_id = :session_key)
  and (:since::timestamptz is null or a.created_at >= :since)
  and a.id in (select m.id from counted_reports(:tenant_id, a.rule_id) m)
order by a.rule_id, a.created_at, a.id

-- find_forgotten --
-- What the source had forgotten of others; what faded away by itself is not its doing.
{stored}
select distinct e.memory_type as kind, e.memory_id as id
from memory_events e
where e.tenant_id = :tenant_id and e.memory_id not in (select id from taken)
  and e.id in (
    select id from memory_events
    where {events_of_source} and event_type in ('fact_retracted', 'rule_forgotten', 'episode_forgotten')
      and payload -> 'effective_confidence' is null
  )
order by kind, id

-- find_replaced --
-- Facts of others that gave way to the source alone, by its facts or settlements, latest first.
with gave_way as (
  select e.memory_id, e.payload, e.sequence,
    coalesce(e.payload ->> 'superseded_by', e.payload ->> 'bounded_by')::uuid = any(:ids::uuid[])
    or e.id in (
      select id from memory_events where {events_of_source} and jsonb_exists(payload, 'conflict')
    ) as is_undone
  from memory_events e
  where e.tenant_id = :tenant_id and e.event_type in ('fact_superseded', 'fact_bounded')
),
made_room as (
  select distinct on (e.memory_id) e.memory_id, e.payload ->> 'from' as was,
    e.payload -> 'window' -> 'from' as was_window, e.sequence
  from gave_way e
  where e.is_undone and not exists (
    select from gave_way later
    where later.memory_id = e.memory_id and later.sequence > e.sequence and not later.is_undone
  )
  order by e.memory_id, e.sequence
)
select f.id, f.scope, f.predicate, f.subject, f.entity_id, f.validity, f.valid_from, f.valid_to,
  m.was, m.was_window
from made_room m
join facts f on f.tenant_id = :tenant_id and f.id = m.memory_id
where f.validity in ('active', 'superseded', 'expired') and not f.id = any(:ids::uuid[])
order by m.sequence desc

-- find_keys --
-- The keys that facts have.
select distinct scope, predicate, subject, entity_id from facts
where tenant_id = :tenant_id and id = any(:ids)
order by scope, predicate, subject, entity_id

-- reconnect --
-- What came after something taken back follows what was before it.
with recursive before (id, ancestor) as (
  select id, supersedes_id from facts
  where tenant_id = :tenant_id and supersedes_id = any(:ids) and not id = any(:ids)
  union
  select b.id, f.supersedes_id
  from before b
  join facts f on f.tenant_id = :tenant_id and f.id = b.ancestor
  where b.ancestor = any(:ids)
)
update facts set supersedes_id = b.ancestor
from before b
where facts.tenant_id = :tenant_id and facts.id = b.id
  and (b.ancestor is null or not b.ancestor = any(:ids))
returning facts.id, facts.supersedes_id

-- {severed} --
-- Links that the source drew, or between what is taken back and what stays, except dependencies.
l.tenant_id = :tenant_id
  and (
    (l.source_id = any(:ids)) <> (l.target_id = any(:ids))
    and not (l.relation = 'depends_on' and l.target_id = any(:ids))
    or {linked_by_source}
  )

-- unlink --
-- Remove those links.
delete from memory_links l
where {severed}
returning l.source_type, l.source_id, l.target_type, l.target_id, l.relation

-- count_links --
-- How many links that would remove.
select count(*) from memory_links l where {severed}

-- find_proposals --
-- What waits because of the source.
select id from memory_proposals
where tenant_id = :tenant_id and status = 'waiting'
  and (
    source_episode_ids && :ids::uuid[]
    or :episode_id::uuid is null and :session_key::text is null
      and (:actor::text is null or proposed_by = :actor)
      and (:since::timestamptz is null or created_at >= :since)
  )
order by id

-- find_entity_changes --
-- What a source did to entities, the latest first.
select event_type, memory_id, payload from memory_events
where {events_of_source}
  and event_type in ('entity_created', 'entity_updated', 'entity_merge', 'fact_anchored')
  and payload -> 'undo' is distinct from 'true'
order by sequence desc

-- reopen_conflicts --
-- What a source settled is open again.
update memory_conflicts c
set settled_as = null, settled_at = null, settled_by = null
where c.tenant_id = :tenant_id and c.settled_as is not null and c.id in (
  select memory_id from memory_events where {events_of_source} and event_type = 'conflict_settled'
)

-- delete_predicate_rules --
-- What a source told of predicates, and what its settling showed, counts no more.
delete from memory_predicates
where tenant_id = :tenant_id and :episode_id::uuid is null and :session_key::text is null
  and (:actor::text is null or told_by = :actor)
  and (:since::timestamptz is null or created_at >= :since)
