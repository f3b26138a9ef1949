-- {due} --
-- Episodes that wait for consolidation, or whose next attempt is due.
tenant_id = :tenant_id and consolidation_status in ('pending', 'failed') and quarantined is null
  and coalesce(next_consolidation_retry_at, :now::timestamptz) <= :now::timestamptz
  and episode_state(expires_at, :now) <> 'expired'

-- {leased} --
-- The episodes of a lease that the run still has.
tenant_id = :tenant_id and id = any(:episode_ids) and leased_by = :run_id

-- {attempt} --
-- Count a failed attempt; the last one allowed makes a dead letter.
consolidation_attempts = consolidation_attempts + 1,
  consolidation_status = case
    when consolidation_attempts + 1 >= :max_attempts then 'dead_letter' else 'failed'
  end,
  dead_letter_reason = case
    when consolidation_attempts + 1 >= :max_attempts then :reason::text
  end,
  last_consolidation_error = :reason::text, leased_until = null, leased_by = null,
  consolidation_batch = case
    when consolidation_attempts + 2 >= :max_attempts then 1 else (held.company + 1) / 2
  end

-- {failed} --
-- An episode after a failed attempt, and the state it was in.
episodes.id, held.was, consolidation_status, consolidation_attempts, last_consolidation_error,
  next_consolidation_retry_at

-- {nearest} --
-- The nearest to any of the episodes first, then the latest confirmed.
(
    select min(recent.embedding <=> episodes.embedding) from episodes
    where episodes.tenant_id = :tenant_id and episodes.id = any(:episode_ids)
      and episodes.embedding_version_id = recent.embedding_version_id
  ) nulls last,
  last_confirmed_at desc nulls last, id

-- find_waiting --
-- Count the episodes that wait, by butler, oldest first; not where a run has a lease.
select butler, count(*) as episodes, min(created_at) as oldest
from episodes
where {due}
group by butler
having coalesce(max(leased_until) < :now::timestamptz, true)
order by oldest, butler

-- abandon --
-- Count an attempt on episodes whose lease ran out, so that they can be claimed; not an agent's.
with lapsed as (
  select id, consolidation_status as was, leased_by as holder,
    case when consolidation_attempts = 0 then 2 else 1 end as patience
  from episodes
  where tenant_id = :tenant_id and butler = :butler and leased_until < :now::timestamptz
    and leased_by not like 'agent:%'
    and consolidation_status in ('pending', 'failed')
  for update skip locked
),
held as (
  select id, was, patience * count(*) over (partition by holder) as company from lapsed
)
update episodes
set {attempt},
  next_consolidation_retry_at = case
    when consolidation_attempts + 1 < :max_attempts then :now::timestamptz
  end
from held
where episodes.tenant_id = :tenant_id and episodes.id = held.id
returning {failed}

-- claim --
-- Lease the oldest episodes of a butler to a run, unless another has some; failed ones by half.
with ready as (
  select id, created_at, length(content) as chars,
    least(consolidation_batch, :batch_size::integer) as company
  from episodes
  where {due} and butler = :butler
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
  select id, row_number() over oldest as place, sum(chars) over oldest as chars,
    min(company) over oldest as company
  from ready
  window oldest as (order by created_at, id)
),
claimed as (
  update episodes set leased_by = :run_id, leased_until = :until::timestamptz
  from measured
  where episodes.tenant_id = :tenant_id and episodes.id = measured.id
    and measured.place <= measured.company
    and (measured.place = 1 or measured.chars <= :max_chars)
  returning episodes.id, episodes.content, episodes.importance, episodes.created_at,
    episodes.author
)
select id, content, importance, created_at, author from claimed order by created_at, id

-- renew --
-- Renew the lease of a run.
update episodes set leased_until = :until
where {leased}

-- release --
-- Release the episodes of a run; with a time, other episodes come first until then.
update episodes
set leased_until = null, leased_by = null,
  next_consolidation_retry_at = coalesce(:until, next_consolidation_retry_at)
where {leased}

-- hold --
-- Lock the active episodes that a run still has until the transaction ends.
select id, consolidation_status as was, trust from episodes
where {leased}
  and episode_state(expires_at, :now, quarantined) = 'active'
order by created_at, id
for update

-- consolidate --
-- Mark the episodes of a run as consolidated and end the lease.
update episodes
set consolidated = true, consolidation_status = 'consolidated',
  next_consolidation_retry_at = null, leased_until = null, leased_by = null
where {leased}

-- fail --
-- Count a failed attempt on the episodes of a run; the last one allowed makes dead letters.
with held as (
  select id, consolidation_status as was, :company::bigint as company, case
    when consolidation_attempts + 1 < :max_attempts
    then :now::timestamptz + interval '1 minute' * power(2, least(consolidation_attempts + 1, 20))
  end as again_at
  from episodes
  where {leased}
  for update
)
update episodes
set {attempt}, next_consolidation_retry_at = held.again_at
from held
where episodes.tenant_id = :tenant_id and episodes.id = held.id
returning {failed}

-- find_known_facts --
-- The valid facts that a butler sees, nearest to its episodes first, then the latest confirmed;
-- none of low trust, which would drown the others.
select id, subject, predicate, content, scope, entity_id, permanence, importance, tags
from facts recent
where tenant_id = :tenant_id and id in (
  select id from facts
  where tenant_id = :tenant_id and validity = 'active' and is_visible_scope(scope, :butler)
    and is_within(valid_from, valid_to, :now) and trust > 0
  order by last_confirmed_at desc nulls last, id
  limit greatest(5000, :limit) -- distances are computed for no more, however large the tenant
)
order by {nearest}
limit :limit

-- find_known_rules --
-- The rules that a butler follows, nearest to its episodes first, then the latest confirmed; none of
-- low trust.
select id, content, maturity
from rules recent
where tenant_id = :tenant_id and id in (
  select id from rules
  where tenant_id = :tenant_id and rule_state(metadata) <> 'forgotten' and quarantined is null
    and is_visible_scope(scope, :butler) and trust > 0
  order by last_confirmed_at desc nulls last, id
  limit greatest(5000, :limit)
)
order by {nearest}
limit :limit

-- find_named --
-- Find active entities whose name occurs in the episodes as letters, latest changed first.
with said as materialized (
  select lower(coalesce(author, '') || ' ' || content) as text from episodes
  where tenant_id = :tenant_id and id = any(:episode_ids)
)
select id, canonical_name, entity_type, aliases,
  metadata ->> 'scope' is not distinct from 'global' as is_known_to_all
from entities
where tenant_id = :tenant_id and entity_state(metadata) = 'active'
  and exists (
    select from said, unnest(aliases || canonical_name::text) spelling
    where strpos(said.text, lower(spelling)) > 0
  )
order by updated_at desc, id
limit :limit

-- find_known_to_all --
-- Find those of the names whose entity every butler knows.
select lower(name) as name
from unnest(:names::text[]) as name
where exists (
  select from entities, unnest(aliases || canonical_name::text) spelling
  where tenant_id = :tenant_id and entity_state(metadata) = 'active'
    and metadata ->> 'scope' = 'global' and lower(spelling) = lower(name)
)
order by name

-- find_cited --
-- Find those of the episodes, and copies of them, that a memory comes from or was confirmed by.
select cited.id as episode_id
from episodes cited
where cited.tenant_id = :tenant_id and cited.id = any(:episode_ids::uuid[])
  and exists (
    select from memory_links
    join episodes linked on linked.tenant_id = :tenant_id
      and linked.id = case when source_type = 'episode' then source_id else target_id end
    where memory_links.tenant_id = :tenant_id and relation in ('derived_from', 'supports')
      and (linked.id = cited.id or linked.content = cited.content)
      and ((source_type = :memory_type and source_id = :memory_id and target_type = 'episode')
        or (target_type = :memory_type and target_id = :memory_id and source_type = 'episode'))
  )
order by cited.id

-- find_dead_letters --
-- Find dead letters, oldest first.
select id, butler, content, dead_letter_reason, consolidation_attempts, created_at, expires_at
from episodes
where tenant_id = :tenant_id and consolidation_status = 'dead_letter'
order by created_at, id
limit :limit

-- requeue --
-- Queue dead letters again, each alone; all of them without ids.
update episodes
set consolidation_status = 'pending', consolidation_attempts = 0, dead_letter_reason = null,
  last_consolidation_error = null, next_consolidation_retry_at = null, consolidation_batch = 1
from (
  select id, dead_letter_reason as reason, consolidation_attempts as attempts from episodes
  where tenant_id = :tenant_id and consolidation_status = 'dead_letter'
    and (:ids::uuid[] is null or id = any(:ids::uuid[]))
  for update
) before
where episodes.tenant_id = :tenant_id and episodes.id = before.id
returning episodes.id, before.reason, before.attempts
