-- insert --
-- Insert a link; one that exists is left as it is.
insert into memory_links ({link})
values (:tenant_id, :source_type, :source_id, :target_type, :target_id, :relation, :now)
on conflict do nothing

-- get_relation --
-- Load how one memory is linked to another; there is at most one link between two.
select relation from memory_links
where tenant_id = :tenant_id and source_type = :source_type and source_id = :source_id
  and target_type = :target_type and target_id = :target_id

-- supersede --
-- Link winners to losers; the new link replaces one of another kind.
insert into memory_links ({link})
select f.tenant_id, 'fact', settled.winner, 'fact', f.id, 'supersedes', :now
from facts f
join unnest(:winners::uuid[], :losers::uuid[]) as settled (winner, loser) on settled.loser = f.id
where f.tenant_id = :tenant_id
on conflict on constraint memory_links_pkey
do update set relation = excluded.relation

-- keep_sources --
-- Link what was drawn from episodes to them, before they are deleted.
insert into memory_links ({link})
select tenant_id, kind, id, 'episode', episode_id, 'derived_from', :now
from {drawn}
where episode_id = any(:ids)
on conflict do nothing

-- find_sources --
-- Find what a fact was drawn from.
select target_type as kind, target_id as id from memory_links
where tenant_id = :tenant_id and source_type = 'fact' and source_id = :id
  and relation = 'derived_from'
order by target_type, target_id

-- find --
-- Find the links of one memory in the wanted directions, a thousand at most.
select source_type, source_id, target_type, target_id, relation, created_at
from memory_links
where tenant_id = :tenant_id
  and (
    (:outgoing::boolean and source_type = :memory_type and source_id = :memory_id)
    or (:incoming::boolean and target_type = :memory_type and target_id = :memory_id)
  )
order by created_at, source_id, target_id, source_type, target_type
limit 1000

-- {resting} --
-- What depends on some memories, directly or through others.
resting (kind, id) as (
  select l.source_type, l.source_id from memory_links l
  join unnest(:types::text[], :ids::uuid[]) as g (kind, id)
    on l.target_type = g.kind and l.target_id = g.id
  where l.tenant_id = :tenant_id and l.relation = 'depends_on'
  union
  select l.source_type, l.source_id from resting r
  join memory_links l on l.tenant_id = :tenant_id and l.target_type = r.kind
    and l.target_id = r.id and l.relation = 'depends_on'
)

-- {doubted} --
-- Those of them that are current and in doubt, with the reasons.
select d.memory_type, d.id, d.subject, d.predicate, d.content, d.created_at, d.in_doubt
from {doubt}
where d.in_doubt is not null
order by d.created_at desc, d.id
limit :limit

-- find_fallen --
-- Find memories in doubt among those that depend on some memories.
with recursive {resting}
{doubted}

-- find_doubted --
-- Find all memories in doubt.
with resting (kind, id) as (
  select distinct source_type, source_id from memory_links
  where tenant_id = :tenant_id and relation = 'depends_on'
)
{doubted}

-- depends_on --
-- Whether a memory depends on another.
with recursive {resting}
select true from resting where kind = :kind and id = :id

-- unlink --
-- Delete the dependencies of a memory on what is not current or in doubt.
with lost as materialized (
  select l.target_type, l.target_id from memory_links l
  where l.tenant_id = :tenant_id and l.source_type = :kind and l.source_id = :id
    and l.relation = 'depends_on'
    and (
      l.target_id = any(in_doubt(:tenant_id, :kind, :id, :now, null, null))
      or in_doubt(:tenant_id, l.target_type, l.target_id, :now, null, null) is not null
    )
)
delete from memory_links l using lost
where l.tenant_id = :tenant_id and l.source_type = :kind and l.source_id = :id
  and l.relation = 'depends_on'
  and l.target_type = lost.target_type and l.target_id = lost.target_id
returning l.source_type, l.source_id, l.target_type, l.target_id, l.relation

-- find_grounds --
-- Find what a memory depends on, whether each is current, and its last change of state.
select g.memory_type, g.id, g.subject, g.predicate, g.content, g.state, g.stands, g.valid_to,
  e.event_type, e.created_at as happened_at, e.actor
from (
  select 'fact' as memory_type, f.id, f.subject, f.predicate, left(f.content, :excerpt) as content,
    fact_state(f.validity, f.metadata) as state, f.valid_to,
    is_fact_current(f, :now, :as_of, :known_at) as stands
  from facts f
  where f.tenant_id = :tenant_id and f.id = any(:ids)
  union all
  select 'rule', r.id, null, null, left(r.content, :excerpt),
    rule_state(r.metadata, r.quarantined), null, is_rule_current(r, :known_at)
  from rules r
  where r.tenant_id = :tenant_id and r.id = any(:ids)
) g
left join lateral (
  select m.event_type, m.created_at, m.actor from memory_events m
  where m.tenant_id = :tenant_id and m.memory_id = g.id
    and jsonb_typeof(m.payload -> 'to') = 'string'
    and m.created_at <= coalesce(:known_at::timestamptz, 'infinity')
  order by m.sequence desc
  limit 1
) e on true
order by g.memory_type, g.id
