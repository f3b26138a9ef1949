-- states --
-- The one word a reader is shown for how a memory stands, whatever columns say it.
create function fact_state(validity text, metadata jsonb) returns text
language sql immutable parallel safe
return case
  when validity = 'active' and metadata ->> 'status' = 'fading' then 'fading' else validity
end;
create function rule_state(metadata jsonb) returns text
language sql immutable parallel safe
return case
  when metadata -> 'forgotten' = 'true' then 'forgotten'
  when metadata ->> 'status' = 'fading' then 'fading'
  else 'active'
end;
create function episode_state(expires_at timestamptz, at timestamptz) returns text
language sql immutable parallel safe
return case when expires_at <= at then 'expired' else 'active' end;
create function entity_state(metadata jsonb) returns text
language sql immutable parallel safe
return case when metadata ->> 'merged_into' is null then 'active' else 'merged' end;

-- is_seen --
-- Whoever names a scope sees it and what is global; whoever names none sees every one.
create function is_seen(scope text, by_scope text) returns boolean
language sql immutable parallel safe
return by_scope is null or scope in ('global', by_scope);

-- {found} --
-- What a search is told of a memory.
memory_type text, id uuid, created_at timestamptz, importance float,
last_referenced_at timestamptz, confidence float, embedding vector, embedding_version_id uuid,
search_vector tsvector

-- {names} --
-- The same by name.
memory_type, id, created_at, importance, last_referenced_at, confidence, embedding,
embedding_version_id, search_vector

-- {aside} --
-- The same of a memory whose vector lies aside.
m.memory_type, m.id, m.created_at, m.importance, m.last_referenced_at, m.confidence, v.embedding,
v.embedding_version_id, m.search_vector

-- {asked} --
-- Who asks, and how sure a memory must be when.
tenant text, by_scope text, least_confidence float, at timestamptz

-- {given} --
-- The same by name.
tenant, by_scope, least_confidence, at

-- visible_episodes --
-- An episode belongs to one butler, whose name is its scope, and is as sure as it ever was.
create function visible_episodes({asked}) returns table ({found})
language sql stable
begin atomic
  select 'episode', id, created_at, importance, last_referenced_at, 1.0::float, embedding,
    embedding_version_id, search_vector
  from episodes
  where tenant_id = tenant and (by_scope is null or butler = by_scope)
    and episode_state(expires_at, at) <> 'expired';
end;

-- visible_facts --
-- A fact is found while it is active and somebody is still sure of it.
create function visible_facts({asked}) returns table ({found})
language sql stable
begin atomic
  select 'fact', id, created_at, importance, last_referenced_at,
    effective_confidence(confidence, decay_rate, last_confirmed_at, at), embedding,
    embedding_version_id, search_vector
  from facts
  where tenant_id = tenant and validity = 'active' and is_seen(scope, by_scope)
    and effective_confidence(confidence, decay_rate, last_confirmed_at, at) >= least_confidence;
end;

-- visible_rules --
-- A rule is as important as anything is unless somebody says so.
create function visible_rules({asked}) returns table ({found})
language sql stable
begin atomic
  select 'rule', id, created_at, 5.0::float, last_referenced_at,
    effective_confidence(confidence, decay_rate, last_confirmed_at, at), embedding,
    embedding_version_id, search_vector
  from rules
  where tenant_id = tenant and rule_state(metadata) <> 'forgotten' and is_seen(scope, by_scope)
    and effective_confidence(confidence, decay_rate, last_confirmed_at, at) >= least_confidence;
end;

-- visible_memories --
-- What a search may find of the wanted kinds.
create function visible_memories(types text[], {asked}) returns table ({found})
language sql stable
begin atomic
  select {names} from visible_episodes({given}) where 'episode' = any(types)
  union all
  select {names} from visible_facts({given}) where 'fact' = any(types)
  union all
  select {names} from visible_rules({given}) where 'rule' = any(types);
end;

-- visible_memories_embedded_by --
-- The same with their vector of one version, wherever it lies.
create function visible_memories_embedded_by(version uuid, types text[], {asked})
returns table ({found})
language sql stable
begin atomic
  select {names} from visible_memories(types, {given}) where embedding_version_id = version
  union all
  select {aside}
  from episode_vectors v
  join visible_episodes({given}) m on m.id = v.episode_id
  where 'episode' = any(types) and v.tenant_id = tenant and v.embedding_version_id = version
    and m.embedding_version_id is distinct from version
  union all
  select {aside}
  from fact_vectors v
  join visible_facts({given}) m on m.id = v.fact_id
  where 'fact' = any(types) and v.tenant_id = tenant and v.embedding_version_id = version
    and m.embedding_version_id is distinct from version
  union all
  select {aside}
  from rule_vectors v
  join visible_rules({given}) m on m.id = v.rule_id
  where 'rule' = any(types) and v.tenant_id = tenant and v.embedding_version_id = version
    and m.embedding_version_id is distinct from version;
end;

-- replaced --
-- What stood for this before; and an index serves a condition that is written as its own.
drop function episodes_embedded_by(uuid);
drop function facts_embedded_by(uuid);
drop function rules_embedded_by(uuid);
drop index facts_fading;
create index facts_fading on facts (tenant_id, scope)
where fact_state(validity, metadata) = 'fading';
