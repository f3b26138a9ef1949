-- {compared} --
-- Memories `n` with what tells who said something first, and their similarity to a vector.
join lateral (
  select e.content, e.trust, e.origin, e.agent, e.accepted_by, e.created_at,
    e.quarantined is not null as is_held, e.last_referenced_at >= :told_since as was_told
  from episodes e where e.tenant_id = :tenant_id and n.kind = 'episode' and e.id = n.id
  union all
  select concat_ws(' ', f.subject, f.predicate, f.content), f.trust, f.origin, f.agent,
    f.accepted_by, f.created_at, f.quarantined is not null, f.last_referenced_at >= :told_since
  from facts f where f.tenant_id = :tenant_id and n.kind = 'fact' and f.id = n.id
  union all
  select r.content, r.trust, r.origin, r.agent, r.accepted_by, r.created_at,
    r.quarantined is not null, r.last_referenced_at >= :told_since
  from rules r where r.tenant_id = :tenant_id and n.kind = 'rule' and r.id = n.id
) m on true

-- {size} --
-- Whether a tenant has so many memories that the index finds the nearest.
(
  select count(*) > :few as by_index
  from (select from index_memories where tenant_id = :tenant_id limit :few + 1) counted
) size

-- find_nearest --
-- The memories nearest to some vectors, of low trust and others, each once with the places of the
-- vectors that it is near to, and how near.
select n.kind, n.id, n.places, n.similarities, m.content, m.trust, m.origin, m.created_at, m.is_held,
  m.was_told
from (
  select i.memory_type as kind, i.memory_id as id, array_agg(part.place - 1) as places,
    array_agg(1 - near.distance) as similarities
  from unnest(:near::vector[]) with ordinality as part (vector, place)
  cross join {size}
  cross join (values (false), (true)) side (low)
  cross join lateral nearest_memories(
    :tenant_id, :version_id, part.vector::vector(384)::halfvec(384), :most, size.by_index, side.low
  ) found
  cross join lateral unnest(found.docs, found.distances) as near (doc, distance)
  join index_memories i on i.tenant_id = :tenant_id and i.doc = near.doc
  group by i.memory_type, i.memory_id
) n
{compared}
order by n.id

-- {unless_in_pieces} --
-- Of a session its pieces, not the episode with all of them.
not exists (
    select from episodes p
    where p.tenant_id = :tenant_id and p.piece is not null and p.metadata ->> 'part' = n.id::text
  )

-- find_copies --
-- What was stored after some memories and is linked as their repetition, or is near, or came from
-- sessions that were given them, or from their agents within the hour.
with originals as materialized (
  select n.kind, n.id, m.content, m.created_at, m.trust < 3 or m.is_held or m.was_told as is_suspect
  from unnest(:kinds::text[], :ids::uuid[]) as n (kind, id)
  {compared}
),
near as materialized (
  select o.id as original_id, i.memory_type as kind, i.memory_id as id,
    1 - near.distance as similarity, false as is_linked, false as was_given
  from originals o
  join index_memories d
    on d.tenant_id = :tenant_id and d.memory_type = o.kind and d.memory_id = o.id
  join embedding_versions e on e.tenant_id = :tenant_id and e.state = 'current'
  join index_vectors v
    on v.tenant_id = :tenant_id and v.version_id = e.id and v.doc = d.doc
  cross join {size}
  cross join (values (false), (true)) side (low)
  cross join lateral nearest_memories(
    :tenant_id, v.version_id, v.embedding, :most, size.by_index, side.low
  ) found
  cross join lateral unnest(found.docs, found.distances) as near (doc, distance)
  join index_memories i on i.tenant_id = :tenant_id and i.doc = near.doc
  union all
  select l.target_id, l.source_type, l.source_id, 1, true, false
  from memory_links l
  join originals o on o.kind = l.target_type and o.id = l.target_id
  where l.tenant_id = :tenant_id and l.relation = 'derived_from' and {repeating}
  union all
  select distinct g.memory_id, e.memory_type, e.memory_id, 0, false, true
  from unnest(
    :memory_id::uuid[], :session_key::text[], :agent::text[], :first_at::timestamptz[],
    :last_at::timestamptz[]
  ) as g (memory_id, session_key, agent, first_at, last_at)
  join memory_events e on e.tenant_id = :tenant_id and e.created_at >= g.first_at
    and e.event_type in ('episode_created', 'fact_created', 'rule_created')
    and (
      e.request_id = g.session_key
      or e.payload ->> 'agent' = g.agent and e.created_at < g.last_at + interval '1 hour'
    )
)
select n.kind, n.id, n.similarity, n.is_linked, n.was_given, m.content, o.content as original,
  o.id as original_id, n.is_linked or o.is_suspect or m.trust < 3 as is_suspect,
  n.was_given or n.similarity >= :near as is_close, {from_person} as is_persons, now.state
from near n
join originals o on o.id = n.original_id
{compared}
cross join lateral (
  select {present_content} from (select n.kind, n.id) n
  {present_memory}
) now
where m.created_at >= o.created_at and n.id <> all(:ids)
  and (n.is_linked or o.is_suspect or m.trust < 3 or n.was_given or n.similarity >= :near)
  and {unless_in_pieces}
order by n.similarity desc, n.id, o.id
