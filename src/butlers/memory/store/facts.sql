-- {under_key} --
-- The facts under a key: scope and predicate of an entity, or else of a subject.
tenant_id = :tenant_id and scope = :scope and predicate = :predicate
  and case
    when :entity_id::uuid is null then entity_id is null and subject = :subject
    else entity_id = :entity_id
  end

-- get_active --
-- The fact that holds under a key at a time.
select id, content, permanence, trust from facts
where {under_key} and validity = 'active' and is_within(valid_from, valid_to, :at)

-- {not_retracted} --
-- What the placing of another fact asks of one.
select id, validity, valid_from, valid_to, coalesce(valid_from, said_at, created_at) as since,
  is_same_content(content, :content) as says_same, trust, fact_state(validity, metadata) as was
from facts

-- find_active --
-- Facts under a key that are believed, whenever they hold.
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
-- A fact holds at another time; perhaps it gave way.
update facts set valid_from = :valid_from, valid_to = :valid_to, validity = :validity
where tenant_id = :tenant_id and id = :id

-- copy --
-- A fact, once more for another time in which it holds.
insert into facts ({copied})
select {copy} from facts where tenant_id = :tenant_id and id = :id

-- inherit --
-- A fact was used as often, and as lately, as the one in whose place it is.
update facts
set reference_count = facts.reference_count + before.reference_count,
  last_referenced_at = greatest(facts.last_referenced_at, before.last_referenced_at)
from facts before
where facts.tenant_id = :tenant_id and facts.id = :id
  and before.tenant_id = :tenant_id and before.id = :before_id

-- insert --
-- A new fact, confirmed by its birth or as another was.
insert into facts ({new_fact}) values ({new_fact_values})

-- get_by_idempotency_key --
-- The fact stored under a key.
select id, supersedes_id from facts
where tenant_id = :tenant_id and idempotency_key = :idempotency_key

-- is_valid --
-- Whether a fact holds now, at a time, or by what was believed at one.
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
  metadata = case
    when metadata ->> 'status' = 'fading' then metadata - 'status' else metadata
  end
from before
where facts.tenant_id = :tenant_id and facts.id = before.id
returning before.was_confirmed_at, before.was_confidence, before.was

-- retract --
-- A fact that is no longer held; one already retracted stays as it is.
update facts
set validity = 'retracted'
from (
  select id, fact_state(validity, metadata) as was from facts
  where tenant_id = :tenant_id and id = :id and validity <> 'retracted' for update
) before
where facts.tenant_id = :tenant_id and facts.id = before.id
returning before.was

-- get_retracted --
-- A retracted fact, its key, and the state its last retraction took it from.
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
-- The window that a fact had before another took its place.
select payload -> 'window' -> 'from' from memory_events
where tenant_id = :tenant_id and memory_id = :id and event_type = 'fact_superseded'
  and payload ->> 'superseded_by' = :by
order by sequence desc
limit 1

-- restore --
-- A retracted fact is what it was before, in what is left of its time.
update facts set validity = :validity, valid_from = :valid_from, valid_to = :valid_to
where tenant_id = :tenant_id and id = :id and validity = 'retracted'

-- find_chain --
-- The facts that a fact replaced, latest first (`way` is -1), or that replaced it, first first (1).
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
