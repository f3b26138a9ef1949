-- {unmerged} --
-- Active entities, of one type or of any.
tenant_id = :tenant_id and entity_state(metadata) = 'active'
  and (:entity_type::text is null or entity_type = :entity_type)

-- lock_unmerged --
-- Lock an entity against merging until the transaction ends.
select id, metadata ->> 'merged_into' as merged_into
from entities
where tenant_id = :tenant_id and id = :id
for share

-- hold --
-- Lock entities in id order, so that two callers cannot deadlock.
select {entity}
from entities
where tenant_id = :tenant_id and id = any(:ids)
order by id
for update

-- insert --
-- Insert an entity, unless its name is taken.
insert into entities
  (id, tenant_id, canonical_name, entity_type, aliases, metadata, trust, created_at, updated_at)
values
  (:id, :tenant_id, :canonical_name, :entity_type, :aliases, :metadata, :trust, :now, :now)
on conflict (tenant_id, canonical_name, entity_type) do nothing

-- get --
-- Load an entity, also a merged one.
select {entity}
from entities
where tenant_id = :tenant_id and id = :id

-- get_by_name --
-- Load the entity with a name, also a merged one.
select {entity}
from entities
where tenant_id = :tenant_id and canonical_name = :canonical_name and entity_type = :entity_type

-- update --
-- Set the name, type, aliases and metadata of an entity.
update entities
set canonical_name = :canonical_name, entity_type = :entity_type, aliases = :aliases,
  metadata = :metadata, updated_at = :now
where tenant_id = :tenant_id and id = :id

-- find_by_name --
-- Active entities with the name in theirs, best match first; by position, as names are no patterns.
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
  where {unmerged}
) matched
where name_match is not null
order by array_position(array['exact', 'alias', 'prefix'], name_match), id = any(:favoured) desc,
  starts_with(lower(canonical_name), lower(:name)) desc, canonical_name collate "C", id
limit :limit

-- has_trigrams --
-- Whether the server has pg_trgm, in a schema from which we can call it.
select to_regprocedure('similarity(text, text)') is not null
  and exists (select from pg_extension where extname = 'pg_trgm')

-- find_similar --
-- Find other active entities spelled like the name, most similar first.
select id, canonical_name, entity_type, aliases
from (
  select id, canonical_name, entity_type, aliases,
    (
      select max(similarity(spelling, :name))
      from unnest(array_append(aliases, canonical_name::text)) spelling
    ) as likeness
  from entities
  where {unmerged}
    and id <> all(:found)
) measured
where likeness >= :threshold
order by likeness desc, canonical_name collate "C", id
limit :limit

-- find_unmerged --
-- Find other active entities, latest changed first.
select id, canonical_name, entity_type, aliases
from entities
where {unmerged}
  and id <> all(:found)
order by updated_at desc, id
limit :limit

-- keywords --
-- Return the words of a text as keyword search knows them: stemmed, without stop words.
select tsvector_to_array(to_tsvector('english', :text))

-- find_fact_keywords --
-- Find the keywords of the newest active facts about each entity, one row per fact.
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

-- {strength}: share, update --
-- hold_bearers_for_{strength} --
-- Who bears some names, locked: for share against merging and renaming, for update against all.
select id, canonical_name, entity_type, aliases, trust
from entities
where tenant_id = :tenant_id
  and (
    lower(canonical_name) in (select lower(name) from unnest(:names::text[]) name)
    or (
      aliases <> '{}'
      and exists (
        select from unnest(aliases) alias
        where lower(alias) in (select lower(name) from unnest(:names::text[]) name)
      )
    )
  )
  and entity_state(metadata) = 'active'
order by id
for {strength}

-- find_unlinked_facts --
-- Find facts about one of these spellings that have no entity, active ones first.
select id, subject, scope, predicate, left(content, 300) as content, validity, trust
from facts
where tenant_id = :tenant_id and entity_id is null and subject = any(:subjects)
order by validity = 'active' desc, created_at, id
limit :limit

-- is_unclaimed --
-- Whether an entity was created automatically and nobody has changed it since.
select exists (
  select from memory_events
  where tenant_id = :tenant_id and memory_id = :id and event_type = 'entity_created'
    and payload -> 'by_itself' = 'true'
) and not exists (
  select from memory_events
  where tenant_id = :tenant_id and memory_id = :id
    and event_type in ('entity_updated', 'entity_merge')
)

-- is_created_by --
-- Whether a caller created an entity.
select exists (
  select from memory_events
  where tenant_id = :tenant_id and memory_id = :id and event_type = 'entity_created'
    and actor = :actor
)

-- is_a_person --
-- Whether every word of a name occurs in the names of known people.
select coalesce(bool_and(exists (
  select from index_names known where known.tenant_id = :tenant_id and known.name = word
)), false)
from name_words(:name) word

-- get_merge --
-- Load the event of the last merge of an entity that was not undone.
select e.payload
from memory_events e
join entities source on source.tenant_id = :tenant_id
  and source.id = (e.payload ->> 'source_entity_id')::uuid
where e.tenant_id = :tenant_id and e.event_type = 'entity_merge'
  and source.metadata ->> 'merged_into' = e.memory_id::text
  and (e.memory_id = :id or source.id = :id)
order by e.sequence desc
limit 1

-- hold_facts --
-- Lock the facts of an entity, and those that will be, in id order.
select id from facts
where tenant_id = :tenant_id and (entity_id = :target_id or id = any(:ids))
order by id
for update

-- find_facts --
-- Find the ids of all facts of an entity, past ones included.
select coalesce(array_agg(id order by id), '{}') from facts
where tenant_id = :tenant_id and entity_id = :id

-- find_overlapping_facts --
-- Active facts that would hold at once under one key, of an entity and of what shall be its own.
with pairs as (
  select moving.id as moving_id, own.id as own_id
  from facts moving
  join facts own on own.tenant_id = :tenant_id and own.entity_id = :target_id
    and own.scope = moving.scope and own.predicate = moving.predicate and own.id <> moving.id
  where moving.tenant_id = :tenant_id and moving.id = any(:ids) and are_both_current(moving, own)
)
select id, scope, subject, predicate, content, trust, supersedes_id, valid_from, valid_to,
  created_at, fact_state(validity, metadata) as state, {fact_confidence} as effective_confidence,
  id in (select own_id from pairs) as is_own
from facts
where tenant_id = :tenant_id
  and (id in (select moving_id from pairs) or id in (select own_id from pairs))
order by id

-- supersede_facts --
-- Supersede facts: each held until the winner began or was stored; never, if that was earlier.
update facts
set validity = 'superseded',
  valid_from = case when before.since > coalesce(before.began, '-infinity') then before.began
    else coalesce(before.began, facts.created_at) end,
  valid_to = case when before.since > coalesce(before.began, '-infinity')
    then least(before.ended, before.since) else coalesce(before.began, facts.created_at) end
from (
  select lost.id, lost.valid_from as began, lost.valid_to as ended, coalesce(
      stays.valid_from, case when stays.created_at > lost.created_at then stays.created_at end
    ) as since
  from unnest(:winners::uuid[], :losers::uuid[]) as settled (winner, loser)
  join facts lost on lost.tenant_id = :tenant_id and lost.id = settled.loser
  join facts stays on stays.tenant_id = :tenant_id and stays.id = settled.winner
) before
where facts.tenant_id = :tenant_id and facts.id = before.id
returning facts.id, facts.valid_from, facts.valid_to

-- begin --
-- Set when facts began to hold that have no beginning yet.
update facts f set valid_from = settled.since
from unnest(:winners::uuid[], :sinces::timestamptz[]) as settled (winner, since)
where f.tenant_id = :tenant_id and f.id = settled.winner and f.valid_from is null

-- succeed --
-- Name in each fact one that it replaces; links name the others.
update facts set supersedes_id = settled.loser
from (
  select distinct on (winner) winner, loser
  from unnest(:winners::uuid[], :losers::uuid[]) as settled (winner, loser)
  order by winner, loser
) settled
where facts.tenant_id = :tenant_id and facts.id = settled.winner

-- repoint --
-- Set the entity of facts.
update facts set entity_id = :target_id
where tenant_id = :tenant_id and id = any(:ids)
