-- facts --
-- Facts that pass every filter given, newest first, from a place in that order on.
select id, subject, predicate, left(content, :excerpt) as content,
  length(content) as content_length, importance, confidence, decay_rate, permanence,
  source_butler, source_episode_id, supersedes_id, entity_id, validity,
  case when validity = 'active' and metadata ->> 'status' = 'fading' then 'fading' else validity
  end as state,
  scope, reference_count, created_at, last_referenced_at, last_confirmed_at, tags, metadata,
  effective_confidence(confidence, decay_rate, last_confirmed_at, :now) as effective_confidence
from facts
where tenant_id = :tenant_id
  and created_at <= coalesce(:place_at::timestamptz, 'infinity')
  and (:place_id::uuid is null or created_at < :place_at or id > :place_id)
  and created_at >= coalesce(:created_after::timestamptz, '-infinity')
  and created_at < coalesce(:created_before::timestamptz, 'infinity')
  and (
    :state::text is null
    or case when validity = 'active' and metadata ->> 'status' = 'fading' then 'fading'
      else validity end = :state
  )
  and (:scope::text is null or scope = :scope)
  and (:permanence::text is null or permanence = :permanence)
  and (:subject::text is null or subject = :subject)
  and (:predicate::text is null or predicate = :predicate)
  and (:entity_id::uuid is null or entity_id = :entity_id)
  and (:tag::text is null or jsonb_exists(tags, :tag))
order by created_at desc, id
limit :limit

-- rules --
-- Rules that pass every filter given, newest first, from a place in that order on.
select id, left(content, :excerpt) as content, length(content) as content_length, scope,
  maturity, confidence, decay_rate, permanence, effectiveness_score, applied_count,
  success_count, harmful_count, source_episode_id, source_butler, created_at, last_applied_at,
  last_evaluated_at, last_confirmed_at, reference_count, last_referenced_at, tags, metadata,
  case
    when metadata -> 'forgotten' = 'true' then 'forgotten'
    when metadata ->> 'status' = 'fading' then 'fading'
    else 'active'
  end as state,
  effective_confidence(confidence, decay_rate, last_confirmed_at, :now) as effective_confidence
from rules
where tenant_id = :tenant_id
  and created_at <= coalesce(:place_at::timestamptz, 'infinity')
  and (:place_id::uuid is null or created_at < :place_at or id > :place_id)
  and created_at >= coalesce(:created_after::timestamptz, '-infinity')
  and created_at < coalesce(:created_before::timestamptz, 'infinity')
  and (
    :state::text is null
    or case
      when metadata -> 'forgotten' = 'true' then 'forgotten'
      when metadata ->> 'status' = 'fading' then 'fading'
      else 'active'
    end = :state
  )
  and (:scope::text is null or scope = :scope)
  and (:maturity::text is null or maturity = :maturity)
  and (:tag::text is null or jsonb_exists(tags, :tag))
order by created_at desc, id
limit :limit

-- episodes --
-- Episodes that pass every filter given, newest first, from a place in that order on.
select id, butler, session_id, left(content, :excerpt) as content,
  length(content) as content_length, importance, reference_count, consolidated,
  consolidation_status, consolidation_attempts, last_consolidation_error,
  next_consolidation_retry_at, dead_letter_reason, created_at, last_referenced_at, expires_at,
  metadata, case when expires_at <= :now then 'expired' else 'active' end as state
from episodes
where tenant_id = :tenant_id
  and created_at <= coalesce(:place_at::timestamptz, 'infinity')
  and (:place_id::uuid is null or created_at < :place_at or id > :place_id)
  and created_at >= coalesce(:created_after::timestamptz, '-infinity')
  and created_at < coalesce(:created_before::timestamptz, 'infinity')
  and (
    :state::text is null
    or case when expires_at <= :now then 'expired' else 'active' end = :state
  )
  and (:status::text is null or consolidation_status = :status)
  and (:butler::text is null or butler = :butler)
  and (:session_id::uuid is null or session_id = :session_id)
order by created_at desc, id
limit :limit

-- entities --
-- Entities that pass every filter given, newest first, with how many facts are held of each.
select id, canonical_name, entity_type, aliases, metadata, created_at, updated_at,
  case when metadata ->> 'merged_into' is null then 'active' else 'merged' end as state,
  metadata ->> 'merged_into' as merged_into,
  (
    select count(*) from facts
    where facts.tenant_id = :tenant_id and facts.entity_id = entities.id
      and facts.validity = 'active'
  ) as active_facts
from entities
where tenant_id = :tenant_id
  and created_at <= coalesce(:place_at::timestamptz, 'infinity')
  and (:place_id::uuid is null or created_at < :place_at or id > :place_id)
  and created_at >= coalesce(:created_after::timestamptz, '-infinity')
  and created_at < coalesce(:created_before::timestamptz, 'infinity')
  and (
    :state::text is null
    or case when metadata ->> 'merged_into' is null then 'active' else 'merged' end = :state
  )
  and (:entity_type::text is null or entity_type = :entity_type)
  and (
    :name::text is null
    or strpos(lower(canonical_name), lower(:name)) > 0
    or exists (select from unnest(aliases) alias where strpos(lower(alias), lower(:name)) > 0)
  )
order by created_at desc, id
limit :limit

-- events_before --
-- The newest events of a tenant, or those before one of them, newest first.
select id, event_type, actor, request_id, memory_type, memory_id, payload, created_at
from memory_events
where tenant_id = :tenant_id
  and sequence < coalesce(
    (select known.sequence from memory_events known
     where known.tenant_id = :tenant_id and known.id = :place_id::uuid),
    9223372036854775807
  )
order by sequence desc
limit :limit

-- events_after --
-- What happened after one event, the first to happen first.
select id, event_type, actor, request_id, memory_type, memory_id, payload, created_at
from memory_events
where tenant_id = :tenant_id
  and sequence > (
    select known.sequence from memory_events known
    where known.tenant_id = :tenant_id and known.id = :place_id
  )
order by sequence
limit :limit

-- event_exists --
-- Whether the tenant has this event.
select true from memory_events where tenant_id = :tenant_id and id = :id
