-- claimable --
-- What a run would take of each butler, in butler order; a butler being worked on waits its turn.
select butler, least(count(*), :batch_size::bigint) as episodes
from episodes
where tenant_id = :tenant_id
  and (consolidation_status = 'pending'
    or (consolidation_status = 'failed'
      and coalesce(next_consolidation_retry_at, :now::timestamptz) <= :now::timestamptz))
  and (expires_at is null or expires_at > :now::timestamptz)
group by butler
having coalesce(max(leased_until) < :now::timestamptz, true)
order by butler

-- take_turn --
-- Claims on one butler's episodes take turns until their transactions end.
select pg_advisory_xact_lock(hashtextextended(:key, 0))

-- abandon --
-- Episodes whose holder let its lease run out count an attempt; they may be claimed at once.
with lapsed as (
  select id, consolidation_status as was from episodes
  where tenant_id = :tenant_id and butler = :butler and leased_until < :now::timestamptz
    and consolidation_status in ('pending', 'failed')
  for update skip locked
)
update episodes
set consolidation_attempts = consolidation_attempts + 1,
  consolidation_status = case
    when consolidation_attempts + 1 >= :max_attempts then 'dead_letter' else 'failed'
  end,
  dead_letter_reason = case
    when consolidation_attempts + 1 >= :max_attempts then :reason::text
  end,
  next_consolidation_retry_at = case
    when consolidation_attempts + 1 < :max_attempts then :now::timestamptz
  end,
  last_consolidation_error = :reason::text, leased_until = null, leased_by = null
from lapsed
where episodes.tenant_id = :tenant_id and episodes.id = lapsed.id
returning episodes.id, lapsed.was, consolidation_status, consolidation_attempts,
  last_consolidation_error, next_consolidation_retry_at

-- claim --
-- The oldest episodes of a butler, leased to a run; none while another run holds some of them.
with ready as (
  select id, created_at, length(content) as chars from episodes
  where tenant_id = :tenant_id and butler = :butler
    and (consolidation_status = 'pending'
      or (consolidation_status = 'failed'
        and coalesce(next_consolidation_retry_at, :now::timestamptz) <= :now::timestamptz))
    and (expires_at is null or expires_at > :now::timestamptz)
    and not exists (
      select from episodes held
      where held.tenant_id = :tenant_id and held.butler = :butler
        and held.leased_until >= :now::timestamptz
        and held.consolidation_status in ('pending', 'failed')
    )
  order by created_at, id
  limit :batch_size
  for update skip locked
),
measured as (
  select id, row_number() over oldest as place, sum(chars) over oldest as chars from ready
  window oldest as (order by created_at, id)
),
claimed as (
  update episodes set leased_by = :run_id, leased_until = :until::timestamptz
  from measured
  where episodes.tenant_id = :tenant_id and episodes.id = measured.id
    and (measured.place = 1 or measured.chars <= :max_chars)
  returning episodes.id, episodes.content, episodes.importance, episodes.created_at
)
select id, content, importance, created_at from claimed order by created_at, id

-- renew --
-- A run goes on holding its episodes.
update episodes set leased_until = :until
where tenant_id = :tenant_id and id = any(:ids) and leased_by = :run_id

-- release --
-- A run lets go of its episodes, which are as they were before it.
update episodes set leased_until = null, leased_by = null
where tenant_id = :tenant_id and id = any(:ids) and leased_by = :run_id

-- hold --
-- What a run still holds of its episodes, kept from everybody else until the transaction ends.
select id, consolidation_status as was from episodes
where tenant_id = :tenant_id and id = any(:ids) and leased_by = :run_id
  and (expires_at is null or expires_at > :now::timestamptz)
order by created_at, id
for update

-- consolidate --
-- The episodes a run holds have become knowledge.
update episodes
set consolidated = true, consolidation_status = 'consolidated',
  next_consolidation_retry_at = null, leased_until = null, leased_by = null
where tenant_id = :tenant_id and id = any(:ids) and leased_by = :run_id

-- fail --
-- An attempt on the episodes a run holds failed; the last one allowed makes dead letters.
with held as (
  select id, consolidation_status as was from episodes
  where tenant_id = :tenant_id and id = any(:ids) and leased_by = :run_id
  for update
)
update episodes
set consolidation_attempts = consolidation_attempts + 1,
  consolidation_status = case
    when consolidation_attempts + 1 >= :max_attempts then 'dead_letter' else 'failed'
  end,
  dead_letter_reason = case
    when consolidation_attempts + 1 >= :max_attempts then :reason::text
  end,
  next_consolidation_retry_at = case
    when consolidation_attempts + 1 < :max_attempts
    then :now::timestamptz + interval '1 minute' * power(2, least(consolidation_attempts + 1, 20))
  end,
  last_consolidation_error = :reason::text, leased_until = null, leased_by = null
from held
where episodes.tenant_id = :tenant_id and episodes.id = held.id
returning episodes.id, held.was, consolidation_status, consolidation_attempts,
  last_consolidation_error, next_consolidation_retry_at

-- known_facts --
-- The active facts a butler sees that are nearest to its episodes, then the latest confirmed.
select id, subject, predicate, content, scope, entity_id, permanence, importance, tags
from (
  select id, subject, predicate, content, scope, entity_id, permanence, importance, tags,
    embedding, embedding_version_id, last_confirmed_at, created_at
  from facts
  where tenant_id = :tenant_id and validity = 'active' and scope in ('global', :butler)
  order by last_confirmed_at desc nulls last, id
  limit :considered
) recent
order by (
    select min(recent.embedding <=> episodes.embedding) from episodes
    where episodes.tenant_id = :tenant_id and episodes.id = any(:ids)
      and episodes.embedding_version_id = recent.embedding_version_id
  ) nulls last,
  last_confirmed_at desc nulls last, id
limit :limit

-- known_rules --
-- The rules a butler follows that are nearest to its episodes, then the latest confirmed.
select id, content, maturity
from (
  select id, content, maturity, embedding, embedding_version_id, last_confirmed_at
  from rules
  where tenant_id = :tenant_id and scope in ('global', :butler)
    and metadata -> 'forgotten' is distinct from 'true'
  order by last_confirmed_at desc nulls last, id
  limit :considered
) recent
order by (
    select min(recent.embedding <=> episodes.embedding) from episodes
    where episodes.tenant_id = :tenant_id and episodes.id = any(:ids)
      and episodes.embedding_version_id = recent.embedding_version_id
  ) nulls last,
  last_confirmed_at desc nulls last, id
limit :limit

-- lock_keys --
-- Writers of these fact keys take turns, always in the same order.
select pg_advisory_xact_lock(hashtextextended(key, 0))
from (select distinct unnest(:keys::text[]) as key order by 1) ordered

-- active_fact --
-- The fact that holds a key.
select id, content from facts
where tenant_id = :tenant_id and scope = :scope and predicate = :predicate and validity = 'active'
  and case
    when :entity_id::uuid is null then entity_id is null and subject = :subject
    else entity_id = :entity_id
  end

-- same_rule --
-- The oldest rule in use that says the same.
select id from rules
where tenant_id = :tenant_id and scope = :scope and lower(content) = lower(:content)
  and metadata -> 'forgotten' is distinct from 'true'
order by created_at, id
limit 1

-- derive --
-- Where a memory comes from: one link to each of its episodes.
insert into memory_links
  (tenant_id, source_type, source_id, target_type, target_id, relation, created_at)
select :tenant_id, :source_type, :source_id, 'episode', unnest(:episode_ids::uuid[]),
  'derived_from', :now
on conflict do nothing

-- dead_letters --
-- The episodes given up on, oldest first.
select id, butler, content, dead_letter_reason, consolidation_attempts, created_at, expires_at
from episodes
where tenant_id = :tenant_id and consolidation_status = 'dead_letter'
order by created_at, id

-- requeue --
-- Dead letters start again from nothing; all of them when no ids are given.
update episodes
set consolidation_status = 'pending', consolidation_attempts = 0, dead_letter_reason = null,
  last_consolidation_error = null, next_consolidation_retry_at = null
from (
  select id, dead_letter_reason as reason, consolidation_attempts as attempts from episodes
  where tenant_id = :tenant_id and consolidation_status = 'dead_letter'
    and (:ids::uuid[] is null or id = any(:ids::uuid[]))
  for update
) before
where episodes.tenant_id = :tenant_id and episodes.id = before.id
returning episodes.id, before.reason, before.attempts
