-- {events_of_source} --
-- Events of a source; of an episode none (no id is null, as every node of a cluster can see).
tenant_id = :tenant_id and nullif(id, id) is not distinct from :episode_id::uuid
  and (:actor::text is null or actor = :actor)
  and (:session_key::text is null or request_id = :session_key)
  and (:since::timestamptz is null or created_at >= :since)

-- {linked_by_source} --
-- Whether the source created a link `l`.
exists (
      select from memory_events
      where {events_of_source} and event_type = 'link_created' and memory_id = l.source_id
        and payload ->> 'target_id' = l.target_id::text
    )

-- {of_source} --
-- Memories of a session by their own columns.
tenant_id = :tenant_id and session_id = :session_id::uuid
  and (:actor::text is null or stored_by = :actor)
  and (:since::timestamptz is null or created_at >= :since)

-- {confirming} --
-- Events that confirm a memory, a helpful mark on a rule among them.
event_type in ('fact_confirmed', 'rule_confirmed', 'rule_marked_helpful')
  and jsonb_exists(payload, 'last_confirmed_at')

-- {unless_revoked} --
-- The person who had accepted a memory, unless that is undone.
case when was.accepted_by = any(:revoked::text[]) then null else was.accepted_by end

-- {stored} --
-- What a source stored, its copies, and what was drawn from that, except by links that it drew or
-- that name a repetition, or as facts inherited.
with recursive taken (kind, id) as (
  (
    select memory_type as kind, memory_id as id from memory_events
    where {events_of_source} and event_type in ('episode_created', 'fact_created', 'rule_created')
    union
    select 'episode', id from episodes where tenant_id = :tenant_id and id = :episode_id::uuid
    union
    select 'episode', id from episodes
    where tenant_id = :tenant_id and piece is not null
      and metadata ->> 'part' = :episode_id::uuid::text
    union
    select 'episode', id from episodes where {of_source}
    union
    select 'fact', id from facts where {of_source}
    union
    select kind, id from unnest(:copied_kinds::text[], :copies::uuid[]) as copied (kind, id)
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
      and not {repeating}
  ) drawn
  where not exists (
    select from memory_events c
    where c.tenant_id = :tenant_id and c.memory_id = drawn.id and c.event_type = 'fact_confirmed'
      and jsonb_exists(c.payload -> 'inherited', taken.id::text)
  )
)

-- find_stored --
-- Find what would be taken back, and the state of each.
{stored}
select n.kind, n.id, {present_content}
from taken n
{present_memory}
order by n.kind, n.id

-- find_confirmations --
-- Find confirmations of other memories by the source, or by its episodes alone.
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
-- Find the confirmations of a memory that were not undone, oldest first.
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
-- Set the confidence that a fact had before; a current one fades if too little is left.
update facts
set last_confirmed_at = :confirmed_at, confidence = left_over.confidence,
  accepted_by = {unless_revoked},
  metadata = case
    when was.validity = 'active' and left_over.effective_confidence < :threshold
      then was.metadata || '{"status": "fading"}' else was.metadata
  end
from facts was
cross join lateral (
  select coalesce(:confidence, was.confidence) as confidence,
    effective_confidence(
      coalesce(:confidence, was.confidence), was.decay_rate, :confirmed_at, :now
    ) as effective_confidence
) left_over
where facts.tenant_id = :tenant_id and facts.id = :id
  and was.tenant_id = :tenant_id and was.id = facts.id
returning fact_state(was.validity, was.metadata) as was,
  fact_state(facts.validity, facts.metadata) as state, left_over.effective_confidence

-- unconfirm_rule --
-- Set when a rule was confirmed before; it fades if too little confidence is left.
update rules
set last_confirmed_at = :confirmed_at, accepted_by = {unless_revoked},
  metadata = case
    when left_over.effective_confidence < :threshold
      then was.metadata || '{"status": "fading"}' else was.metadata
  end
from rules was
cross join lateral (
  select effective_confidence(
    was.confidence, was.decay_rate, :confirmed_at, :now, was.confidence_floor
  ) as effective_confidence
) left_over
where rules.tenant_id = :tenant_id and rules.id = :id
  and was.tenant_id = :tenant_id and was.id = rules.id
returning rule_state(was.metadata) as was, rule_state(rules.metadata) as state,
  left_over.effective_confidence

-- find_marks --
-- Find the marks of the source on rules of others.
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
-- Find memories of others that the source has forgotten; not what decayed.
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
-- Find the keys of facts.
select distinct scope, predicate, subject, entity_id from facts
where tenant_id = :tenant_id and id = any(:ids)
order by scope, predicate, subject, entity_id

-- reconnect --
-- Let facts supersede what was before those taken back.
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
-- Delete these links.
delete from memory_links l
where {severed}
returning l.source_type, l.source_id, l.target_type, l.target_id, l.relation

-- count_links --
-- Count these links.
select count(*) from memory_links l where {severed}

-- find_proposals --
-- Find waiting proposals of the source, or drawn from its episodes.
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
-- Find what the source did to entities, latest first.
select event_type, memory_id, payload from memory_events
where {events_of_source}
  and event_type in ('entity_created', 'entity_updated', 'entity_merge', 'fact_anchored')
  and payload -> 'undo' is distinct from 'true'
order by sequence desc

-- reopen_conflicts --
-- Reopen the conflicts that the source settled.
update memory_conflicts c
set settled_as = null, settled_at = null, settled_by = null
from memory_conflicts was
where c.tenant_id = :tenant_id and c.settled_as is not null and c.id in (
  select memory_id from memory_events where {events_of_source} and event_type = 'conflict_settled'
)
  and was.tenant_id = :tenant_id and was.id = c.id
returning c.id, c.kind, c.newer_id, c.older_id, was.settled_as as was

-- delete_predicate_rules --
-- Delete what the source stated of predicates, or settling showed.
delete from memory_predicates
where tenant_id = :tenant_id and :episode_id::uuid is null and :session_key::text is null
  and (:actor::text is null or told_by = :actor)
  and (:since::timestamptz is null or created_at >= :since)
