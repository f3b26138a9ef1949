-- {used} --
-- Uses of one kind, held in id order, so that two writers at once cannot wait for each other.
from unnest(:types::text[], :ids::uuid[], :times::integer[], :moments::timestamptz[])
  as used (type, id, times, at)

-- count --
-- Memories that were told: counted and dated.
with held_episodes as materialized (
  select m.id, times, at {used}
  join episodes m on m.tenant_id = :tenant_id and m.id = used.id and used.type = 'episode'
  order by m.id
  for no key update of m
),
held_facts as materialized (
  select m.id, times, at {used}
  join facts m on m.tenant_id = :tenant_id and m.id = used.id and used.type = 'fact'
  order by m.id
  for no key update of m
),
held_rules as materialized (
  select m.id, times, at {used}
  join rules m on m.tenant_id = :tenant_id and m.id = used.id and used.type = 'rule'
  order by m.id
  for no key update of m
),
counted_episodes as (
  update episodes m set reference_count = reference_count + times,
    last_referenced_at = greatest(last_referenced_at, at)
  from held_episodes h where m.tenant_id = :tenant_id and m.id = h.id
),
counted_facts as (
  update facts m set reference_count = reference_count + times,
    last_referenced_at = greatest(last_referenced_at, at)
  from held_facts h where m.tenant_id = :tenant_id and m.id = h.id
)
update rules m set reference_count = reference_count + times,
  last_referenced_at = greatest(last_referenced_at, at)
from held_rules h where m.tenant_id = :tenant_id and m.id = h.id
