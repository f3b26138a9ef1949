-- find_predicates --
-- Find some predicates of the active facts about these subjects or entities.
select distinct predicate from (
  (
    select predicate from facts
    where tenant_id = :tenant_id and validity = 'active' and entity_id is null
      and subject = any(:names)
    order by created_at desc
    limit :limit
  )
  union all
  (
    select predicate from facts
    where tenant_id = :tenant_id and validity = 'active' and entity_id = any(:entity_ids)
    order by created_at desc
    limit :limit
  )
) known
order by predicate

-- {comparable} --
-- The columns by which facts are compared.
b.id, b.predicate, b.subject, left(b.content, :read) as content, b.scope, b.valid_from, b.valid_to,
  b.embedding, b.embedding_version_id

-- find_comparable --
-- Active facts about the same name or entity: under the same predicates, the nearest of the latest.
select f.id, f.predicate, f.subject, f.content, n.holds as own_holds,
  case
    when f.embedding_version_id = n.embedding_version_id then 1 - (f.embedding <=> n.embedding)
    else 0
  end as near,
  (
    select holds from memory_predicates p
    where p.tenant_id = :tenant_id and p.predicate = f.predicate
  ) as holds
from (
  select n.id, n.scope, n.subject, n.entity_id, n.valid_from, n.valid_to, n.embedding,
    n.embedding_version_id,
    (
      select holds from memory_predicates p
      where p.tenant_id = :tenant_id and p.predicate = n.predicate
    ) as holds,
    -- What an equal fact that it replaced was settled with.
    array(
      select case when c.newer_id = p.id then c.older_id else c.newer_id end
      from facts p
      join memory_conflicts c on c.tenant_id = :tenant_id and p.id in (c.newer_id, c.older_id)
      where p.tenant_id = :tenant_id and p.id = n.supersedes_id and c.settled_as = 'both'
        and is_same_content(p.content, n.content)
    ) as settled
  from facts n
  where n.tenant_id = :tenant_id and n.id = :id
  offset 0
) n
cross join lateral (
  (
    select {comparable} from facts b
    where b.tenant_id = :tenant_id and b.validity = 'active' and b.entity_id is null
      and n.entity_id is null and b.subject = any(:names)
    order by b.created_at desc, b.id
    limit :most
  )
  union all
  (
    select {comparable} from facts b
    where b.tenant_id = :tenant_id and b.validity = 'active' and b.entity_id = n.entity_id
    order by b.created_at desc, b.id
    limit :most
  )
  union all
  select {comparable} from facts b
  where b.tenant_id = :tenant_id and b.validity = 'active' and b.entity_id is null
    and n.entity_id is null and b.subject = n.subject
    and b.scope in (n.scope, 'global') and b.predicate = any(:predicates)
  union all
  select {comparable} from facts b
  where b.tenant_id = :tenant_id and b.validity = 'active' and b.entity_id = n.entity_id
    and b.scope in (n.scope, 'global') and b.predicate = any(:predicates)
) f
where f.id <> n.id and f.id <> all(n.settled)
  and (f.scope = n.scope or 'global' in (f.scope, n.scope))
  and tstzrange(f.valid_from, f.valid_to) && tstzrange(n.valid_from, n.valid_to)
order by f.predicate = any(:predicates) desc, f.embedding <=> n.embedding, f.id
limit :limit

-- insert --
-- Insert a conflict; a pair of facts that is known already is left as it is.
insert into memory_conflicts
  (tenant_id, id, kind, newer_id, older_id, why, score, created_at)
values (:tenant_id, :id, :kind, :newer_id, :older_id, :why, :score, :now)
on conflict do nothing

-- {side}: n, o --
-- {fact_{side}} --
-- What is shown of one side, as JSON.
(select to_jsonb(shown) from (
    select {side}.id, {side}.subject, {side}.predicate, left({side}.content, :excerpt) as content,
      {side}.scope, {side}.trust, {side}.origin, {side}.created_at, {side}.valid_from,
      {side}.valid_to
  ) shown)

-- find_open --
-- Find open conflicts with both facts, newest first, from a place in that order on.
select c.id, c.kind, c.why, c.score, c.created_at, {fact_n} as newer, {fact_o} as older
{sides} and {open}
  and c.created_at <= coalesce(:place_at::timestamptz, 'infinity')
  and (:place_id::uuid is null or c.created_at < :place_at or c.id > :place_id)
order by c.created_at desc, c.id
limit :limit

-- lock --
-- Lock an open conflict and its two facts until the transaction ends.
select c.id, c.kind, c.newer_id, c.older_id, n.predicate as newer_predicate,
  o.predicate as older_predicate, n.trust as newer_trust, o.trust as older_trust,
  n.valid_from as newer_from, n.valid_to as newer_to, o.valid_from as older_from,
  o.valid_to as older_to, n.created_at as newer_at, o.created_at as older_at,
  fact_state(n.validity, n.metadata) as newer_state,
  fact_state(o.validity, o.metadata) as older_state
{sides} and {open} and c.id = :id
for update of c, n, o

-- find_keys --
-- Find the keys of both facts of a conflict.
select f.scope, f.predicate, f.subject, f.entity_id
from memory_conflicts c
join facts f on f.tenant_id = :tenant_id and f.id in (c.newer_id, c.older_id)
where c.tenant_id = :tenant_id and c.id = :id
order by f.id

-- settle --
-- Settle a conflict.
update memory_conflicts
set settled_as = :settled_as, settled_at = :now, settled_by = :settled_by
where tenant_id = :tenant_id and id = :id

-- set_window --
-- Set the validity window of a fact, unless another fact of its key overlaps it.
update facts f set valid_from = :valid_from, valid_to = :valid_to
where f.tenant_id = :tenant_id and f.id = :id and f.validity = 'active' and not exists (
  {others_of_key} && tstzrange(:valid_from::timestamptz, :valid_to::timestamptz)
)

-- find_predicate_rules --
-- Find how many values predicates have.
select predicate, holds, told, told_by, created_at from memory_predicates
where tenant_id = :tenant_id
order by predicate
limit :limit

-- set_predicate_rule --
-- Set how many values a predicate has; settling does not change what somebody stated.
insert into memory_predicates (tenant_id, predicate, holds, told, told_by, created_at)
values (:tenant_id, :predicate, :holds, :told, :told_by, :now)
on conflict (tenant_id, predicate) do update
set holds = excluded.holds, told = excluded.told, told_by = excluded.told_by,
  created_at = excluded.created_at
where excluded.told or not memory_predicates.told
