-- split_facts --
-- Give facts that a merge moved back to the other entity.
update facts set entity_id = :source_id
where tenant_id = :tenant_id and entity_id = :target_id and id = any(:ids::uuid[])
returning id

-- unlink_facts --
-- Unlink a fact from an entity, unless another has the key of its subject.
update facts f set entity_id = null
where f.tenant_id = :tenant_id and f.entity_id = :target_id and f.id = :id
  and (
    f.validity <> 'active'
    or not exists (
      select from facts o
      where o.tenant_id = :tenant_id and o.validity = 'active' and o.entity_id is null
        and o.scope = f.scope and o.subject = f.subject and o.predicate = f.predicate
        and tstzrange(o.valid_from, o.valid_to) && tstzrange(f.valid_from, f.valid_to)
    )
  )

-- split_conflicts --
-- Set what facts superseded before the merge.
update facts winner set supersedes_id = pair.before
from unnest(:winners::uuid[], :losers::uuid[], :befores::uuid[]) as pair (winner, loser, before)
where winner.tenant_id = :tenant_id and winner.id = pair.winner
  and winner.supersedes_id = pair.loser

-- restore_superseded --
-- Restore superseded facts whose key is free; found first, as a growing index may lose entries.
update facts set validity = 'active', valid_from = pair.began, valid_to = pair.ended
from unnest(:losers::uuid[], :froms::timestamptz[], :tos::timestamptz[]) as pair (id, began, ended)
join facts was on was.tenant_id = :tenant_id and was.id = pair.id
where facts.tenant_id = :tenant_id and facts.id = pair.id and facts.id = any(array(
  select f.id
  from unnest(:losers::uuid[], :froms::timestamptz[], :tos::timestamptz[]) as p (id, began, ended)
  join facts f on f.tenant_id = :tenant_id and f.id = p.id
  where f.validity = 'superseded' and not exists ({others_of_key} && tstzrange(p.began, p.ended))
))
returning facts.id, fact_state(facts.validity, facts.metadata) as state, facts.valid_from,
  facts.valid_to, was.valid_from as was_valid_from, was.valid_to as was_valid_to

-- reopen --
-- Remove the beginning that the merge gave facts, unless another fact overlaps.
update facts set valid_from = null
from facts was
where was.tenant_id = :tenant_id and was.id = facts.id and facts.tenant_id = :tenant_id and facts.id = any(array(
  select f.id
  from unnest(:winners::uuid[], :sinces::timestamptz[]) as pair (winner, since)
  join facts f on f.tenant_id = :tenant_id and f.id = pair.winner and f.valid_from = pair.since
  where not exists ({others_of_key} && tstzrange(null, f.valid_to))
))
returning facts.id, was.valid_from, facts.valid_to

-- split_links --
-- Delete the links that the merge created.
delete from memory_links
using unnest(:winners::uuid[], :losers::uuid[]) as pair (winner, loser)
where tenant_id = :tenant_id and relation = 'supersedes'
  and source_id = pair.winner and target_id = pair.loser

-- find_by_name --
-- Find the facts of an entity whose subject is its name.
select id from facts
where tenant_id = :tenant_id and entity_id = :id and lower(subject) = lower(:name)
order by id

-- has_dependents --
-- Whether an entity has facts of others, or entities merged into it.
select exists (
  select from facts
  where tenant_id = :tenant_id and entity_id = :id and id <> all(:ids::uuid[])
  union all
  select from entities
  where tenant_id = :tenant_id and metadata ->> 'merged_into' = :id::uuid::text
)
