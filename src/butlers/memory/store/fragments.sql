-- {is_less_trusted} --
-- What trust says that a memory came from a page, a tool or a low-trust caller; or it waits.
(trust < 3 or quarantined is not null)

-- {repeating} --
-- Whether a link `l` says that its source repeats its target.
exists (
    select from memory_events r
    where r.tenant_id = :tenant_id and r.memory_id = l.source_id
      and r.event_type = 'link_created' and r.payload -> 'repeats' = 'true'
      and r.payload ->> 'target_id' = l.target_id::text
  )

-- {fact_confidence} --
-- Confidence of a fact after decay.
effective_confidence(confidence, decay_rate, last_confirmed_at, :now)

-- {fact_details} --
-- What readers get of a fact beside its text.
{fact_columns}, fact_state(validity, metadata) as state, {fact_confidence} as effective_confidence

-- {fact} --
-- All columns of a fact that readers get.
id, tenant_id, subject, predicate, content, {fact_details},
  in_doubt(tenant_id, 'fact', id, :now, null, null) as in_doubt

-- {rule_confidence} --
-- Confidence of a rule after decay.
effective_confidence(confidence, decay_rate, last_confirmed_at, :now, confidence_floor)

-- {from_person} --
-- Whether a person typed a memory, accepted or confirmed it.
(accepted_by is not null
  or origin in ('operator', 'user') and trust = 4 and agent is distinct from 'import')

-- {rule_details} --
-- What readers get of a rule beside its text.
{rule_columns}, has_only_own_reports(tenant_id, id, stored_by) as own_marks,
  rule_state(metadata, quarantined) as state, {rule_confidence} as effective_confidence,
  in_doubt(tenant_id, 'rule', id, :now, null, null) as in_doubt

-- {rule} --
-- All columns of a rule that readers get.
id, tenant_id, content, {rule_details}

-- {episode} --
-- All columns of an episode that readers get.
id, tenant_id, butler, session_id, content, retry_count, last_error, {episode_columns},
  outdated_by(tenant_id, id, :now, null, null) as outdated_by

-- {entity} --
-- All columns of an entity.
id, canonical_name, entity_type, aliases, metadata, created_at, updated_at

-- {event} --
-- The columns of an event that readers get.
id, event_type, actor, request_id, memory_type, memory_id, payload, created_at

-- {link} --
-- The columns of a new link.
tenant_id, source_type, source_id, target_type, target_id, relation, created_at

-- {drawn} --
-- Which memory was drawn from which episode, by its own row or by a link.
(
    select tenant_id, 'fact' as kind, id, source_episode_id as episode_id from facts
    where tenant_id = :tenant_id
    union all
    select tenant_id, 'rule', id, source_episode_id from rules where tenant_id = :tenant_id
    union all
    select tenant_id, source_type, source_id, target_id from memory_links
    where tenant_id = :tenant_id and target_type = 'episode' and relation = 'derived_from'
  ) drawn

-- {others_of_key} --
-- Other active facts under the key of a fact `f`; a window they overlap has to follow.
select from facts o
  where o.tenant_id = :tenant_id and o.id <> f.id and o.validity = 'active'
    and fact_key(o.scope, o.entity_id, o.subject, o.predicate)
      = fact_key(f.scope, f.entity_id, f.subject, f.predicate)
    and tstzrange(o.valid_from, o.valid_to)

-- {held} --
-- Memories in quarantine; a piece goes with its episode.
(
  select 'episode' as memory_type, id, content, null as subject, null as predicate, quarantined,
    origin, trust, stored_by, butler as scope, created_at
  from episodes
  where tenant_id = :tenant_id and quarantined is not null
    and not (piece is not null and exists (
      select from episodes whole
      where whole.tenant_id = :tenant_id and whole.quarantined is not null
        and whole.id::text = episodes.metadata ->> 'part'
    ))
    and episode_state(expires_at, :now) <> 'expired'
  union all
  select 'fact', id, content, subject, predicate, quarantined, origin, trust, stored_by, scope,
    created_at
  from facts
  where tenant_id = :tenant_id and validity = 'quarantined'
  union all
  select 'rule', id, content, null, null, quarantined, origin, trust, stored_by, scope, created_at
  from rules
  where tenant_id = :tenant_id and quarantined is not null
    and rule_state(metadata) <> 'forgotten'
) held

-- {open} --
-- Both facts are valid, and nobody has settled that both may be.
c.settled_as is distinct from 'both' and are_both_current(n, o)

-- {sides} --
-- A conflict with its facts.
from memory_conflicts c
join facts n on n.tenant_id = :tenant_id and n.id = c.newer_id
join facts o on o.tenant_id = :tenant_id and o.id = c.older_id
where c.tenant_id = :tenant_id

-- {doubt} --
-- Current memories among those that may be `resting` on something, and what they rest on that fell.
(
  select 'fact' as memory_type, f.id, f.subject, f.predicate, left(f.content, :excerpt) as content,
    f.origin, f.stored_by, f.scope, f.created_at,
    in_doubt(:tenant_id, 'fact', f.id, :now, null, null) as in_doubt
  from resting r join facts f on f.tenant_id = :tenant_id and f.id = r.id
  where r.kind = 'fact' and is_fact_valid(f, :now, null, null)
  union all
  select 'rule', u.id, null, null, left(u.content, :excerpt), u.origin, u.stored_by, u.scope,
    u.created_at, in_doubt(:tenant_id, 'rule', u.id, :now, null, null)
  from resting r join rules u on u.tenant_id = :tenant_id and u.id = r.id
  where r.kind = 'rule' and is_rule_current(u, null)
) d

-- {kind}: episode, fact, rule --
-- {batch_of_{kind}s} --
-- The next rows of a table in the order of their ids.
with batch as materialized (
  select m.id, m.id::text collate "C" as key
  from {kind}s m
  where m.tenant_id = :tenant_id
    and m.id > coalesce(nullif(:after::text, ''), '00000000-0000-0000-0000-000000000000')::uuid
  order by m.id
  limit :limit
)

-- {findings} --
-- How many rows were looked at, where the next batch begins, and the findings.
select (select count(*) from batch) as checked, (select max(b.key) from batch b) as last,
  (select count(*) from found) as faulty,
  (select coalesce(array_agg(distinct f.id), '{}') from found f) as ids,
  (
    select coalesce(jsonb_agg(jsonb_build_object(
      'fault', f.fault, 'id', f.id, 'expected', f.expected, 'found', f.was
    ) order by f.id, f.fault), '[]')
    from (select fault, id, expected, was from found order by id, fault limit :most) f
  ) as findings

-- {report} --
-- The findings, of a part that has no words.
{findings}, 0 as words

-- {erased} --
-- Whether an erasure names the event `e`.
exists (
    select from memory_events t
    where t.tenant_id = :tenant_id and t.event_type = 'memory_erased'
      and t.payload -> 'event_ids' ? e.id::text
  )

-- {moved_at} --
-- When an event says that a memory was confirmed last, as JSON; null if it does not say.
case jsonb_typeof(e.payload -> 'last_confirmed_at')
        when 'object' then e.payload #> '{last_confirmed_at,to}'
        else e.payload -> 'last_confirmed_at'
      end

-- {present_content} --
-- The text and the state of a memory joined as `present_memory`.
coalesce(e.content, f.content, r.content) as content,
  case
    when e.id is not null then episode_state(e.expires_at, :now, e.quarantined)
    when f.id is not null then fact_state(f.validity, f.metadata)
    when r.id is not null then rule_state(r.metadata, r.quarantined)
    else 'gone'
  end as state

-- {present_memory} --
-- The row of a memory `n`.
left join episodes e on n.kind = 'episode' and e.tenant_id = :tenant_id and e.id = n.id
left join facts f on n.kind = 'fact' and f.tenant_id = :tenant_id and f.id = n.id
left join rules r on n.kind = 'rule' and r.tenant_id = :tenant_id and r.id = n.id
