-- lock_key --
-- Writers of one active-fact key take turns until their transactions end.
select pg_advisory_xact_lock(hashtextextended(:key, 0))

-- supersede_active --
-- The active fact under a key gives way; what a reader was shown of it before.
update facts
set validity = 'superseded'
where tenant_id = :tenant_id and scope = :scope and predicate = :predicate and validity = 'active'
  and case
    when :entity_id::uuid is null then entity_id is null and subject = :subject
    else entity_id = :entity_id
  end
returning id, case when metadata ->> 'status' = 'fading' then 'fading' else 'active' end as was

-- insert --
-- A new fact, confirmed by its birth.
insert into facts
  (id, tenant_id, subject, predicate, content, embedding, embedding_version_id, search_vector,
   importance, confidence, decay_rate, permanence, source_butler, source_episode_id,
   supersedes_id, entity_id, scope, created_at, last_confirmed_at, tags, metadata,
   idempotency_key)
values
  (:id, :tenant_id, :subject, :predicate, :content, :embedding, :embedding_version_id,
   to_tsvector('english', :searchable), :importance, 1.0, :decay_rate, :permanence,
   :source_butler, :source_episode_id, :supersedes_id, :entity_id, :scope, :now, :now, :tags,
   :metadata, :idempotency_key)

-- by_idempotency_key --
-- The fact stored under a key.
select id, supersedes_id from facts
where tenant_id = :tenant_id and idempotency_key = :idempotency_key

-- exists --
-- Whether the tenant has this fact.
select true from facts where tenant_id = :tenant_id and id = :id

-- reference --
-- Facts read: counted, dated and returned whole.
-- Rows are held in id order, so that two readers at once cannot wait for each other.
with held as materialized (
  select id as held_id from facts
  where tenant_id = :tenant_id and id = any(:ids)
  order by id
  for no key update
)
update facts
set reference_count = reference_count + 1, last_referenced_at = :now
from held
where tenant_id = :tenant_id and id = held_id
returning id, tenant_id, subject, predicate, content, importance, confidence, decay_rate, permanence,
  source_butler, source_episode_id, supersedes_id, entity_id, validity,
  case when validity = 'active' and metadata ->> 'status' = 'fading' then 'fading' else validity
  end as state,
  scope, reference_count, created_at, last_referenced_at, last_confirmed_at, tags, metadata,
  effective_confidence(confidence, decay_rate, last_confirmed_at, :now) as effective_confidence

-- find --
-- Facts as they are, without counting it as a use.
select id, tenant_id, subject, predicate, content, importance, confidence, decay_rate, permanence,
  source_butler, source_episode_id, supersedes_id, entity_id, validity,
  case when validity = 'active' and metadata ->> 'status' = 'fading' then 'fading' else validity
  end as state,
  scope, reference_count, created_at, last_referenced_at, last_confirmed_at, tags, metadata,
  effective_confidence(confidence, decay_rate, last_confirmed_at, :now) as effective_confidence
from facts
where tenant_id = :tenant_id and id = any(:ids)
order by created_at desc, id

-- confirm --
-- An active fact is sure again; fading ends at once.
update facts
set last_confirmed_at = :now,
  metadata = case
    when metadata ->> 'status' = 'fading' then metadata - 'status' else metadata
  end
from (
  select id, last_confirmed_at as was_confirmed_at, metadata ->> 'status' = 'fading' as was_fading
  from facts where tenant_id = :tenant_id and id = :id and validity = 'active' for update
) before
where facts.tenant_id = :tenant_id and facts.id = before.id
returning before.was_confirmed_at, coalesce(before.was_fading, false) as was_fading

-- retract --
-- A fact that is no longer held; one already retracted stays as it is.
update facts
set validity = 'retracted'
from (
  select id,
    case when validity = 'active' and metadata ->> 'status' = 'fading' then 'fading' else validity
    end as was
  from facts
  where tenant_id = :tenant_id and id = :id and validity <> 'retracted' for update
) before
where facts.tenant_id = :tenant_id and facts.id = before.id
returning before.was

-- replaced --
-- The facts a fact replaced, directly and through each other, the latest replaced first.
with recursive chain (id, replaced_at) as (
  select target_id, created_at from memory_links
  where tenant_id = :tenant_id and source_type = 'fact' and source_id = :id
    and target_type = 'fact' and relation = 'supersedes'
  union
  select l.target_id, l.created_at
  from chain c
  join memory_links l on l.tenant_id = :tenant_id and l.source_type = 'fact'
    and l.source_id = c.id and l.target_type = 'fact' and l.relation = 'supersedes'
)
select f.id, f.content, f.validity, f.created_at, c.replaced_at
from chain c
join facts f on f.tenant_id = :tenant_id and f.id = c.id
order by c.replaced_at desc, f.created_at desc, f.id desc
limit :limit

-- replacements --
-- The facts that replaced a fact, directly and through each other, the first to do so first.
with recursive chain (id, replaced_at) as (
  select source_id, created_at from memory_links
  where tenant_id = :tenant_id and target_type = 'fact' and target_id = :id
    and source_type = 'fact' and relation = 'supersedes'
  union
  select l.source_id, l.created_at
  from chain c
  join memory_links l on l.tenant_id = :tenant_id and l.target_type = 'fact'
    and l.target_id = c.id and l.source_type = 'fact' and l.relation = 'supersedes'
)
select f.id, f.content, f.validity, f.created_at, c.replaced_at
from chain c
join facts f on f.tenant_id = :tenant_id and f.id = c.id
order by c.replaced_at, f.created_at, f.id
limit :limit
