-- {page} --
-- The rows of a tenant in a span of time, newest first, from a place in that order on.
tenant_id = :tenant_id
  and created_at <= coalesce(:place_at::timestamptz, 'infinity')
  and (:place_id::uuid is null or created_at < :place_at or id > :place_id)
  and created_at >= coalesce(:created_after::timestamptz, '-infinity')
  and created_at < coalesce(:created_before::timestamptz, 'infinity')
order by created_at desc, id
limit :limit

-- {excerpt} --
-- The beginning of a text, and its length.
left(content, :excerpt) as content, length(content) as content_length

-- facts --
-- Facts that pass every filter, newest first, from a place on; of a time, those valid then.
select id, subject, predicate, {excerpt}, {fact_details},
  in_doubt(tenant_id, 'fact', id, :now, :as_of, :known_at) as in_doubt
from facts
where (
    coalesce(:as_of::timestamptz, :known_at::timestamptz) is null
    or is_fact_valid(facts, :now, :as_of, :known_at)
  )
  and (:state::text is null or fact_state(validity, metadata) = :state)
  and (:scope::text is null or is_named_scope(scope, :scope))
  and (:permanence::text is null or permanence = :permanence)
  and (:subject::text is null or subject = :subject)
  and (:predicate::text is null or predicate = :predicate)
  and (:entity_id::uuid is null or entity_id = :entity_id)
  and (:tag::text is null or jsonb_exists(tags, :tag))
  and {page}

-- rules --
-- Rules that pass every filter, newest first, from a place on.
select id, {excerpt}, {rule_details}
from rules
where (:state::text is null or rule_state(metadata, quarantined) = :state)
  and (:scope::text is null or is_named_scope(scope, :scope))
  and (:maturity::text is null or maturity = :maturity)
  and (:tag::text is null or jsonb_exists(tags, :tag))
  and {page}

-- episodes --
-- Whole episodes that pass every filter, newest first, from a place on.
select id, butler, session_id, {excerpt}, {episode_columns},
  episode_state(expires_at, :now, quarantined) as state,
  outdated_by(tenant_id, id, :now, null, null) as outdated_by
from episodes
where piece is null
  and (:state::text is null or episode_state(expires_at, :now, quarantined) = :state)
  and (:status::text is null or consolidation_status = :status)
  and (:butler::text is null or is_named_scope(butler, :butler))
  and (:session_id::uuid is null or session_id = :session_id)
  and {page}

-- entities --
-- Entities that pass every filter, newest first, with the number of their active facts.
select {entity}, entity_state(metadata) as state, metadata ->> 'merged_into' as merged_into,
  (
    select count(*) from facts
    where facts.tenant_id = :tenant_id and facts.entity_id = entities.id
      and facts.validity = 'active'
  ) as active_facts
from entities
where (:state::text is null or entity_state(metadata) = :state)
  and (:entity_type::text is null or entity_type = :entity_type)
  and (:name::text is null or exists (
    select from unnest(aliases || canonical_name::text) spelling
    where strpos(lower(spelling), lower(:name)) > 0
  ))
  and {page}

-- find_between --
-- Find what a tenant has in a range of ids, and what it had by the audit log.
select kind, id
from (
  select 'episode' as kind, tenant_id, id from episodes
  union
  select 'fact', tenant_id, id from facts
  union
  select 'rule', tenant_id, id from rules
  union
  select 'entity', tenant_id, id from entities
  union
  select memory_type, tenant_id, memory_id from memory_events where memory_type <> 'link'
) known
where tenant_id = :tenant_id and id between :low and :high
order by id, kind
limit :limit

-- find_scopes --
-- Find the scopes of memories (of episodes the butler) and of the facts of entities.
select id, scope from facts where tenant_id = :tenant_id and id = any(:ids::uuid[])
union
select id, scope from rules where tenant_id = :tenant_id and id = any(:ids::uuid[])
union
select id, butler from episodes where tenant_id = :tenant_id and id = any(:ids::uuid[])
union
select episode_id, episode ->> 'butler' from binned_episodes
where tenant_id = :tenant_id and episode_id = any(:ids::uuid[])
union
select entity_id, scope from facts where tenant_id = :tenant_id and entity_id = any(:ids::uuid[])
order by id, scope

-- count_memories --
-- All counts of a tenant, and its last consolidation; without a scope, those of every scope.
select
  (
    select jsonb_build_object(
      'total', count(*),
      'unconsolidated', count(*) filter (where is_waiting),
      'consolidated', count(*) filter (where consolidation_status = 'consolidated'),
      'failed', count(*) filter (where consolidation_status = 'failed'),
      'dead_letter', count(*) filter (where consolidation_status = 'dead_letter'),
      'backlog_age_hours', extract(
        epoch from :now::timestamptz - min(least(created_at, :now)) filter (where is_waiting)
      )::float / 3600.0
    )
    from episodes, lateral (
      select consolidation_status = 'pending' and quarantined is null
    ) state (is_waiting)
    where tenant_id = :tenant_id and piece is null
  ) as episodes,
  (
    -- Fading ones apart, so that each is counted from an index: a fact's row is mostly its vector.
    with faded as (
      select count(*) as number from facts
      where tenant_id = :tenant_id and is_visible_scope(scope, :scope)
        and fact_state(validity, metadata) = 'fading'
    )
    select to_jsonb(counted) from (
      select count(*) filter (where validity = 'active') - (select number from faded) as active,
        (select number from faded) as fading,
        count(*) filter (where validity = 'superseded') as superseded,
        count(*) filter (where validity = 'expired') as expired,
        count(*) filter (where validity = 'retracted') as retracted
      from facts
      where tenant_id = :tenant_id and is_visible_scope(scope, :scope)
    ) counted
  ) as facts,
  (
    select '{"candidate": 0, "established": 0, "proven": 0, "anti_pattern": 0, "forgotten": 0}'
      || coalesce(jsonb_object_agg(state, number), '{}')
    from (
      select case rule_state(metadata) when 'forgotten' then 'forgotten' else maturity end as state,
        count(*) as number
      from rules
      where tenant_id = :tenant_id and is_visible_scope(scope, :scope) and quarantined is null
      group by 1
    ) counted
  ) as rules,
  (
    select created_at
    from memory_events
    where tenant_id = :tenant_id and event_type = 'episode_consolidated'
    order by sequence desc
    limit 1
  ) as last_consolidated_at
