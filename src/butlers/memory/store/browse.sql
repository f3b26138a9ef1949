-- {on_page} --
-- The rows of a tenant from a place in the order on, newest first, of a span of time.
tenant_id = :tenant_id
  and created_at <= coalesce(:place_at::timestamptz, 'infinity')
  and (:place_id::uuid is null or created_at < :place_at or id > :place_id)
  and created_at >= coalesce(:created_after::timestamptz, '-infinity')
  and created_at < coalesce(:created_before::timestamptz, 'infinity')

-- {excerpt} --
-- As much of a memory as a listing shows, and how long it is.
left(content, :excerpt) as content, length(content) as content_length

-- facts --
-- Facts that pass every filter given, newest first, from a place in that order on; of a time, those
-- that held then.
select id, subject, predicate, {excerpt}, {fact_details},
  in_doubt(tenant_id, 'fact', id, :now, :as_of, :known_at) as in_doubt
from facts
where {on_page}
  and (
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
order by created_at desc, id
limit :limit

-- rules --
-- Rules that pass every filter given, newest first, from a place in that order on.
select id, {excerpt}, {rule_details}
from rules
where {on_page}
  and (:state::text is null or rule_state(metadata, quarantined) = :state)
  and (:scope::text is null or is_named_scope(scope, :scope))
  and (:maturity::text is null or maturity = :maturity)
  and (:tag::text is null or jsonb_exists(tags, :tag))
order by created_at desc, id
limit :limit

-- episodes --
-- Episodes that pass every filter given, newest first, from a place in that order on.
select id, butler, session_id, {excerpt}, {episode_columns},
  episode_state(expires_at, :now, quarantined) as state,
  outdated_by(tenant_id, id, :now, null, null) as outdated_by
from episodes
where {on_page}
  and (:state::text is null or episode_state(expires_at, :now, quarantined) = :state)
  and (:status::text is null or consolidation_status = :status)
  and (:butler::text is null or is_named_scope(butler, :butler))
  and (:session_id::uuid is null or session_id = :session_id)
order by created_at desc, id
limit :limit

-- entities --
-- Entities that pass every filter given, newest first, with how many facts are held of each.
select {entity}, entity_state(metadata) as state, metadata ->> 'merged_into' as merged_into,
  (
    select count(*) from facts
    where facts.tenant_id = :tenant_id and facts.entity_id = entities.id
      and facts.validity = 'active'
  ) as active_facts
from entities
where {on_page}
  and (:state::text is null or entity_state(metadata) = :state)
  and (:entity_type::text is null or entity_type = :entity_type)
  and (
    :name::text is null
    or strpos(lower(canonical_name), lower(:name)) > 0
    or exists (select from unnest(aliases) alias where strpos(lower(alias), lower(:name)) > 0)
  )
order by created_at desc, id
limit :limit
