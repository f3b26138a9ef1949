-- {living} --
-- Entities that have not been merged away, of one type or of any.
tenant_id = :tenant_id and entity_state(metadata) = 'active'
  and (:entity_type::text is null or entity_type = :entity_type)

-- hold_living --
-- An entity a fact may name, kept from being merged away until the transaction ends.
select id, metadata ->> 'merged_into' as merged_into
from entities
where tenant_id = :tenant_id and id = :id
for share

-- hold --
-- Entities about to change, locked in id order so that two callers cannot wait for each other.
select {entity}
from entities
where tenant_id = :tenant_id and id = any(:ids)
order by id
for update

-- insert --
-- A new entity, unless its name is taken.
insert into entities
  (id, tenant_id, canonical_name, entity_type, aliases, metadata, created_at, updated_at)
values
  (:id, :tenant_id, :canonical_name, :entity_type, :aliases, :metadata, :now, :now)
on conflict (tenant_id, canonical_name, entity_type) do nothing

-- get --
-- One entity, living or merged away.
select {entity}
from entities
where tenant_id = :tenant_id and id = :id

-- get_by_name --
-- The one entity that bears a name, living or merged away.
select {entity}
from entities
where tenant_id = :tenant_id and canonical_name = :canonical_name and entity_type = :entity_type

-- update --
-- An entity as it is from now on.
update entities
set canonical_name = :canonical_name, aliases = :aliases, metadata = :metadata, updated_at = :now
where tenant_id = :tenant_id and id = :id

-- find_by_name --
-- Living entities with the name in theirs, best tier first. Looked for by position, not by
-- pattern, so that every character of a name stands for itself.
select id, canonical_name, entity_type, aliases, name_match
from (
  select id, canonical_name, entity_type, aliases,
    case
      when lower(canonical_name) = lower(:name) then 'exact'
      when exists (select from unnest(aliases) alias where lower(alias) = lower(:name)) then 'alias'
      when strpos(lower(canonical_name), lower(:name)) > 0
        or exists (select from unnest(aliases) alias where strpos(lower(alias), lower(:name)) > 0)
        then 'prefix'
    end as name_match
  from entities
  where {living}
) matched
where name_match is not null
order by array_position(array['exact', 'alias', 'prefix'], name_match), id = any(:favoured) desc,
  starts_with(lower(canonical_name), lower(:name)) desc, canonical_name collate "C", id
limit :limit

-- has_trigrams --
-- Whether the server measures spellings: the extension is there, and where we can call it.
select to_regprocedure('similarity(text, text)') is not null
  and exists (select from pg_extension where extname = 'pg_trgm')

-- find_similar --
-- Living entities not found yet that are spelled like the name, the most alike first.
select id, canonical_name, entity_type, aliases
from (
  select id, canonical_name, entity_type, aliases,
    (
      select max(similarity(spelling, :name))
      from unnest(array_append(aliases, canonical_name::text)) spelling
    ) as likeness
  from entities
  where {living}
    and id <> all(:found)
) measured
where likeness >= :threshold
order by likeness desc, canonical_name collate "C", id
limit :limit

-- find_living --
-- Living entities not found yet, the latest changed first.
select id, canonical_name, entity_type, aliases
from entities
where {living}
  and id <> all(:found)
order by updated_at desc, id
limit :limit

-- keywords --
-- The words of a text as keyword search knows them: stemmed, without those that say nothing.
select tsvector_to_array(to_tsvector('english', :text))

-- find_fact_keywords --
-- The keywords of what is held about each entity, one row per fact, the newest facts of each.
select about.entity_id,
  tsvector_to_array(to_tsvector('english', known.predicate || ' ' || left(known.content, 2000)))
    as keywords
from unnest(:ids::uuid[]) as about (entity_id)
cross join lateral (
  select facts.id, facts.predicate, facts.content
  from facts
  where facts.tenant_id = :tenant_id and facts.entity_id = about.entity_id
    and facts.validity = 'active'
  order by facts.created_at desc, facts.id
  limit :limit
) known
order by about.entity_id, known.id

-- hold_facts --
-- Facts of entities about to be merged, locked in id order; which the source brings.
select coalesce(array_agg(id order by id) filter (where entity_id = :source_id), '{}')
from (
  select id, entity_id from facts
  where tenant_id = :tenant_id and entity_id in (:source_id, :target_id)
  order by id
  for update
) held

-- {source_wins} --
-- Whether the source's fact stays.
(source.trust, source.confidence) > (target.trust, target.confidence)

-- find_rivals --
-- Pairs of active facts that would share a key; the more trusted one wins, then the surer one,
-- and on a draw the target's.
select
  case when {source_wins} then source.id else target.id end as winner_id,
  case when {source_wins} then target.id else source.id end as loser_id,
  case when {source_wins} then source.supersedes_id else target.supersedes_id end as winner_before,
  {source_wins} as source_wins,
  case when {source_wins} then target.trust else source.trust end as loser_trust
from facts source
join facts target
  on target.tenant_id = source.tenant_id and target.scope = source.scope
  and target.predicate = source.predicate and target.validity = 'active'
where source.tenant_id = :tenant_id and source.entity_id = :source_id
  and source.validity = 'active' and target.entity_id = :target_id
order by source.id

-- supersede --
-- Facts give way.
update facts set validity = 'superseded'
where tenant_id = :tenant_id and id = any(:losers)

-- succeed --
-- Facts name the one each of them replaces; what they replaced before stays in their links.
update facts set supersedes_id = settled.loser
from unnest(:winners::uuid[], :losers::uuid[]) as settled (winner, loser)
where facts.tenant_id = :tenant_id and facts.id = settled.winner

-- repoint --
-- All facts of one entity become facts of another.
update facts set entity_id = :target_id
where tenant_id = :tenant_id and entity_id = :source_id
