-- {unread} --
-- What nobody has read.
tenant_id = :tenant_id and consolidation_status <> 'consolidated'

-- count --
-- How much nobody has read, and since when the oldest of it waits to be.
select count(*) as episodes, coalesce(sum(octet_length(content)), 0)::bigint as bytes,
  count(*) filter (
    where consolidation_status <> 'dead_letter' and quarantined is null
  ) as waiting,
  min(created_at) filter (
    where consolidation_status <> 'dead_letter' and quarantined is null
  ) as oldest_at
from episodes
where {unread}

-- newest_beyond --
-- The newest of what is too much, counted from the newest on; none within the bound.
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
-- Whether anything that nobody has read expires before long, or strangely late.
select true from episodes
where {unread} and (expires_at < :until or expires_at > :furthest)
limit 1

-- keep --
-- What soon expires is moved on, all dead letters and others within the bound, but for what somebody
-- asked to forget, which expires the moment that was told. What was moved too far comes back.
with expiring as (
  select id, expires_at as was from episodes
  where {unread}
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
        and told.event_type = 'episode_forgotten' and told.created_at = episodes.expires_at
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
