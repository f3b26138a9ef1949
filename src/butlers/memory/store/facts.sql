-- {under_key} --
-- Facts with a key: scope and predicate of an entity, or of a subject without one.
tenant_id = :tenant_id and scope = :scope and predicate = :predicate
  and case
    when :entity_id::uuid is null then entity_id is null and subject = :subject
    else entity_id = :entity_id
  end

-- get_active --
-- Load the fact that is valid under a key at a time.
select id, content, permanence, trust, said_at,
  origin = 'user' and source_episode_id is not null and metadata ? 'stated_in' as is_stated
from facts
where {under_key} and validity = 'active' and is_within(valid_from, valid_to, :at)

-- get_same --
-- Find the oldest valid fact about a subject with the same text, under any predicate; one of low
-- trust only for low trust.
select id from facts
where tenant_id = :tenant_id and scope = :scope and subject = :subject and validity = 'active'
  and trust >= least(:trust::integer, 1)
  and is_within(valid_from, valid_to, :at) and is_same_content(content, :content)
order by created_at, id
limit 1

-- {not_retracted} --
-- The columns of existing facts that decide where a new one is placed in time.
select id, validity, valid_from, valid_to, coalesce(valid_from, said_at, created_at) as since,
  is_same_content(content, :content) as says_same, trust, fact_state(validity, metadata) as was
from facts

-- find_active --
-- Find the active facts under a key, of any time.
{not_retracted}
where {under_key} and validity = 'active'
order by valid_from nulls first, id

-- find_by_key --
-- Facts under a key that hold at some time: active, superseded or expired, with a window.
{not_retracted}
where {under_key} and validity in ('active', 'superseded', 'expired')
  and not coalesce(valid_from = valid_to, false)
order by valid_from nulls first, id

-- set_window --
-- Set the validity window and the validity of a fact.
update facts set valid_from = :valid_from, valid_to = :valid_to, validity = :validity
where tenant_id = :tenant_id and id = :id

-- copy --
-- Copy a fact for another validity window.
insert into facts ({copied})
select {copy} from facts where tenant_id = :tenant_id and id = :id

-- inherit --
-- Add the usage of a fact to the one that replaces it.
update facts
set reference_count = facts.reference_count + before.reference_count,
  last_referenced_at = greatest(facts.last_referenced_at, before.last_referenced_at)
from facts before
where facts.tenant_id = :tenant_id and facts.id = :id
  and before.tenant_id = :tenant_id and before.id = :before_id

-- insert --
-- Insert a fact.
insert into facts ({new_fact}) values ({new_fact_values})

-- is_valid --
-- Whether a fact is valid now, at a time, or by what was believed at one.
select is_fact_valid(facts, :now, :as_of, :known_at) from facts
where tenant_id = :tenant_id and id = :id

-- confirm --
-- Confirm an active fact; fading ends. Read once, as a GiST index that splits may lose entries.
with before as materialized (
  select id, last_confirmed_at as was_confirmed_at, confidence as was_confidence,
    fact_state(validity, metadata) as was
  from facts where tenant_id = :tenant_id and id = :id and validity = 'active' for update
)
update facts
set last_confirmed_at = :now, confidence = 1.0,
  accepted_by = coalesce(:accepted_by, accepted_by),
  metadata = case
    when metadata ->> 'status' = 'fading' then metadata - 'status' else metadata
  end
from before
where facts.tenant_id = :tenant_id and facts.id = before.id
returning before.was_confirmed_at, before.was_confidence, before.was

-- retract --
-- Retract a fact; one already retracted is left as it is.
update facts
set validity = 'retracted'
from (
  select id, fact_state(validity, metadata) as was from facts
  where tenant_id = :tenant_id and id = :id and validity <> 'retracted' for update
) before
where facts.tenant_id = :tenant_id and facts.id = before.id
returning before.was

-- get_retracted --
-- Load a retracted fact, its key, and the state it was retracted from.
select id, subject, predicate, scope, entity_id, valid_from, valid_to,
  metadata ->> 'status' = 'fading' as is_fading,
  (
    select payload ->> 'from' from memory_events
    where tenant_id = :tenant_id and memory_id = :id and event_type = 'fact_retracted'
    order by sequence desc
    limit 1
  ) as was
from facts
where tenant_id = :tenant_id and id = :id and validity = 'retracted'

-- get_window_before --
-- Load the validity window that a fact had before another superseded it.
select payload -> 'window' -> 'from' from memory_events
where tenant_id = :tenant_id and memory_id = :id and event_type = 'fact_superseded'
  and payload ->> 'superseded_by' = :by
order by sequence desc
limit 1

-- restore --
-- Restore a retracted fact to a validity and a window.
update facts set validity = :validity, valid_from = :valid_from, valid_to = :valid_to
where tenant_id = :tenant_id and id = :id and validity = 'retracted'

-- find_chain --
-- Find what a fact replaced, latest first (`way` -1), or what replaced it, earliest first (1).
with recursive chain (id, replaced_at) as (
  select :id::uuid, null::timestamptz
  union
  select step.id, step.created_at
  from chain c
  cross join lateral (
    select target_id as id, created_at from memory_links
    where tenant_id = :tenant_id and source_type = 'fact' and source_id = c.id
      and target_type = 'fact' and relation = 'supersedes' and :way::integer < 0
    union all
    select source_id, created_at from memory_links
    where tenant_id = :tenant_id and target_type = 'fact' and target_id = c.id
      and source_type = 'fact' and relation = 'supersedes' and :way > 0
  ) step
)
select f.id, f.content, f.validity, f.created_at, c.replaced_at
from chain c
join facts f on f.tenant_id = :tenant_id and f.id = c.id
where c.replaced_at is not null
order by :way * extract(epoch from c.replaced_at), :way * extract(epoch from f.created_at), f.id
limit :limit

-- find_important --
-- The most important current facts of some scopes, those of low trust last.
select {fact}
from facts
where tenant_id = :tenant_id and validity = 'active' and is_visible_scope(scope, :scope)
  and (valid_from is null or valid_from <= :now) and (valid_to is null or valid_to > :now)
  and {fact_confidence} >= :least
order by trust = 0, importance desc, trust desc, not {from_person},
  coalesce(last_confirmed_at, created_at) desc, id
limit :limit

-- find_changed --
-- Current facts that replaced another since an instant, with what that one said; none of low trust.
select f.id, f.subject, f.predicate, f.content, f.origin, f.trust, f.agent, f.accepted_by,
  f.created_at,
  old.content as was, effective_confidence(
    f.confidence, f.decay_rate, f.last_confirmed_at, :now
  ) as effective_confidence
from facts f
join facts old on old.tenant_id = :tenant_id and old.id = f.supersedes_id
where f.tenant_id = :tenant_id and f.validity = 'active' and f.created_at > :since and f.trust > 0
  and is_visible_scope(f.scope, :scope) and not is_same_content(f.content, old.content)
order by f.created_at desc, f.id
limit :limit
