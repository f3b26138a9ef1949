-- {is_evidence} --
-- Whether something drawn from an episode waits for a person.
exists (
    select from (
      select unnest(source_episode_ids) as id from memory_proposals
      where tenant_id = :tenant_id and status = 'waiting'
      union all
      select source_episode_id from facts
      where tenant_id = :tenant_id and validity = 'quarantined'
      union all
      select source_episode_id from rules
      where tenant_id = :tenant_id and rule_state(metadata, quarantined) = 'quarantined'
    ) waiting
    where waiting.id = episodes.id
  )

-- claim_expired --
-- Lock expired episodes, longest expired first, except those under a lease.
select id from episodes
where tenant_id = :tenant_id and expires_at < :now
  and (leased_until is null or leased_until <= :now) and not {is_evidence}
order by expires_at, id
limit :limit
for update skip locked

-- claim_surplus --
-- Lock the oldest consolidated episodes beyond the number to keep.
select id from episodes
where tenant_id = :tenant_id and consolidation_status = 'consolidated' and piece is null
  and quarantined is null
  and (leased_until is null or leased_until <= :now) and not {is_evidence}
order by created_at, id
limit least(
  :limit, greatest(
    (select count(*) from episodes where tenant_id = :tenant_id and piece is null) - :kept, 0
  )
)
for update skip locked

-- count_remaining --
-- Count the whole episodes of the tenant.
select count(*) from episodes where tenant_id = :tenant_id and piece is null

-- put_in_bin --
-- Copy episodes to the bin, without leases and columns that can be derived.
insert into binned_episodes (tenant_id, episode_id, binned_at, reason, episode)
select e.tenant_id, e.id, :now, :reason, to_jsonb(e) - array[
    'embedding', 'embedding_version_id', 'search_vector', 'leased_until', 'leased_by',
    'retry_count', 'last_error'
  ]
from episodes e
where e.tenant_id = :tenant_id and e.id = any(:ids)

-- delete_episodes --
-- Delete episodes that are in the bin.
delete from episodes
where tenant_id = :tenant_id and id = any(:ids)
returning id, butler, consolidation_status, created_at, expires_at, piece

-- find_binned --
-- Find the episodes in the bin, latest first.
select episode_id as id, binned_at, reason, episode ->> 'butler' as butler,
  episode ->> 'content' as content, episode ->> 'consolidation_status' as consolidation_status,
  (episode ->> 'created_at')::timestamptz as created_at
from binned_episodes
where tenant_id = :tenant_id
order by binned_at desc, episode_id
limit :limit

-- get_binned_content --
-- Load the text of an episode in the bin.
select episode ->> 'content' from binned_episodes
where tenant_id = :tenant_id and episode_id = :id

-- take_from_bin --
-- Delete an episode from the bin.
delete from binned_episodes
where tenant_id = :tenant_id and episode_id = :id

-- restore_binned --
-- Restore an episode from the bin with a new vector and expiry, unless its key is taken.
insert into episodes
  ({binned}, tenant_id, expires_at, embedding, embedding_version_id, search_vector)
select {from_bin}, b.tenant_id,
  case when e.piece is null then :expires_at::timestamptz else :piece_expires_at::timestamptz end,
  :embedding::vector,
  :embedding_version_id::uuid, text_search_vector(:searchable)
from binned_episodes b
cross join lateral jsonb_populate_record(null::episodes, b.episode) e
where b.tenant_id = :tenant_id and b.episode_id = :id
on conflict (tenant_id, idempotency_key) where idempotency_key is not null do nothing
returning consolidation_status as state, expires_at

-- empty_bin --
-- Delete episodes from the bin for good, oldest first.
delete from binned_episodes
where tenant_id = :tenant_id and episode_id in (
  select episode_id from binned_episodes
  where tenant_id = :tenant_id and binned_at <= :until
  order by binned_at, episode_id
  limit :limit
)
returning episode_id as id, binned_at, reason

-- {unread} --
-- Episodes that are not consolidated.
tenant_id = :tenant_id and consolidation_status <> 'consolidated'

-- count_unread --
-- Count unread episodes, their bytes, and those that wait, with the time of the oldest.
select count(*) as episodes, coalesce(sum(octet_length(content)), 0)::bigint as bytes,
  count(*) filter (where is_waiting) as waiting,
  min(created_at) filter (where is_waiting) as oldest_at
from episodes, lateral (
  select consolidation_status <> 'dead_letter' and quarantined is null
) state (is_waiting)
where {unread}

-- get_newest_beyond --
-- Find the newest unread episode beyond the bounds, counted from the newest.
select created_at, id
from (
  select created_at, id, row_number() over newest as number,
    sum(octet_length(content)) over newest as bytes
  from episodes
  where {unread}
  window newest as (order by created_at desc, id desc)
) counted
where number > :max_unread or bytes > :max_bytes
order by created_at desc, id desc
limit 1

-- is_due --
-- Whether an unread episode expires soon, or much too late.
select true from episodes
where {unread} and (expires_at < :until or expires_at > :furthest)
limit 1

-- keep_unread --
-- Move the expiry of unread episodes on, or back if too far; not of those that were forgotten, nor
-- of those of low trust beyond their time.
with expiring as (
  select id, expires_at as was from episodes
  where {unread} and (trust > 0 or created_at > :low_since)
    and (
      expires_at < :until
      or expires_at > :furthest and exists (
        select from memory_events moved
        where moved.tenant_id = :tenant_id and moved.memory_id = episodes.id
          and moved.event_type = 'episode_kept'
          and (moved.payload #>> '{expires_at,to}')::timestamptz = episodes.expires_at
      )
    )
    and (
      consolidation_status = 'dead_letter' or :beyond_at::timestamptz is null
      or (created_at, id) > (:beyond_at::timestamptz, :beyond_id::uuid)
    )
    and not exists (
      select from memory_events told
      where told.tenant_id = :tenant_id and told.memory_id = episodes.id
        and told.event_type = 'episode_forgotten'
        and (told.payload #>> '{expires_at,to}')::timestamptz = episodes.expires_at
    )
  order by id
  limit :limit
  for no key update
)
update episodes
set expires_at = case when was < :until then greatest(was, :now) else :now end + :ttl::interval
from expiring
where episodes.tenant_id = :tenant_id and episodes.id = expiring.id
returning episodes.id, expiring.was, episodes.expires_at

-- {kind}: fact, rule --
-- {fading_fact} --
-- Facts that lose confidence with time.
tenant_id = :tenant_id and validity = 'active' and decay_rate > 0

-- {fading_rule} --
-- Rules that lose confidence with time.
tenant_id = :tenant_id and rule_state(metadata) <> 'forgotten' and quarantined is null
  and decay_rate > 0

-- {faded_fact} --
-- A fact with too little confidence left expires.
validity = case when verdict = 'spent' then 'expired' else validity end,
  metadata = case
    when verdict = 'fading' then metadata || '{"status": "fading"}'
    when verdict = 'active' then metadata - 'status'
    else metadata
  end

-- {faded_rule} --
-- A rule with too little confidence left is forgotten.
metadata = case
    when verdict = 'spent' then metadata || '{"forgotten": true}'
    when verdict = 'fading' then metadata || '{"status": "fading"}'
    else metadata - 'status'
  end

-- get_next_{kind}s --
-- Count the next page of memories that can fade, in id order, and find the last of it.
select count(*) as checked, (array_agg(id order by id desc))[1] as last
from (
  select id from {kind}s
  where {fading_{kind}} and id > :after
  order by id
  limit :limit
) page

-- fade_{kind}s --
-- Move the memories of a page to the state of their confidence; the next sweep takes locked rows.
with due as (
  select id, fact_state('active', metadata) as was, verdict, effective_confidence
  from {kind}s
  cross join lateral (select {{kind}_confidence}) measured (effective_confidence)
  cross join lateral (
    select case
      when effective_confidence < :expiry_threshold then 'spent'
      when effective_confidence < :retrieval_threshold then 'fading'
      else 'active'
    end
  ) judged (verdict)
  where {fading_{kind}} and id > :after and id <= :last
    and verdict <> fact_state('active', metadata)
  order by id
  for no key update of {kind}s skip locked
)
update {kind}s
set {faded_{kind}}
from due
where {kind}s.tenant_id = :tenant_id and {kind}s.id = due.id
returning due.id, due.was, due.verdict, due.effective_confidence
