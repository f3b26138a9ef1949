-- insert --
-- Insert an episode; one with a known idempotency key is left as it is.
insert into episodes ({new_episode}) values ({new_episode_values})
on conflict (tenant_id, idempotency_key) where idempotency_key is not null do nothing
returning id, expires_at

-- get_source --
-- Where, by whom and when an episode was said, its trust, and whether it is in quarantine.
select butler, session_id, place, author, coalesce(said_at, created_at) as said_at, trust,
  quarantined is not null as is_held
from episodes
where tenant_id = :tenant_id and id = :id

-- find_texts --
-- Find the texts of episodes, with butler and time.
select id, butler, content, created_at from episodes
where tenant_id = :tenant_id and id = any(:ids)
order by created_at desc, id

-- find_sources --
-- The active episodes that a memory was drawn from, locked; whether another current one was too.
select e.id, e.content, e.trust, exists (
    select from {drawn}
    left join facts f on f.tenant_id = :tenant_id and f.id = drawn.id
    left join rules r on r.tenant_id = :tenant_id and r.id = drawn.id
    where drawn.episode_id = e.id and drawn.id <> :id
      and (f.validity = 'active' or r.id is not null and is_rule_current(r, null))
  ) as serves
from episodes e
where e.tenant_id = :tenant_id and episode_state(e.expires_at, :now, e.quarantined) = 'active'
  and e.id in (
    select episode_id from {drawn} where kind = :kind and id = :id
  )
order by e.created_at, e.id
for update of e

-- forget --
-- Let an episode expire now; one that has expired is left as it is.
update episodes
set expires_at = :now
from (
  select id, expires_at as was_expires_at from episodes
  where tenant_id = :tenant_id and id = :id and episode_state(expires_at, :now) <> 'expired'
  for update
) before
where episodes.tenant_id = :tenant_id and episodes.id = before.id
returning before.was_expires_at

-- revive --
-- Give an expired episode a new time to expire.
update episodes
set expires_at = :expires_at::timestamptz
where tenant_id = :tenant_id and id = :id and episode_state(expires_at, :now) = 'expired'
returning consolidation_status

-- find_recent --
-- The newest active episodes of some scopes that are not outdated; of a time, those known then.
with newest as materialized (
  select id, content, importance, created_at, said_at, author, origin, trust
  from episodes
  where tenant_id = :tenant_id and is_named_scope(butler, :scope) and quarantined is null
    and episode_state(expires_at, coalesce(:known_at::timestamptz, :now)) <> 'expired'
    and created_at <= coalesce(:known_at, 'infinity')
    and coalesce(said_at, created_at) <= coalesce(:as_of::timestamptz, :known_at, 'infinity')
  order by created_at desc, id
  limit 4 * :limit::integer
)
select id, content, importance, created_at, said_at, author, origin, trust
from newest
where outdated_by(:tenant_id, id, :now, :as_of, :known_at) is null
order by created_at desc, id
limit :limit

-- get_last_part --
-- The last stored part of a session, by the audit log; of older sessions, by their episodes.
select episode_id, place, through
from (
  select memory_id as episode_id, (payload ->> 'place')::integer as place,
    payload ->> 'through' as through, sequence
  from memory_events
  where tenant_id = :tenant_id and request_id = :session_key and event_type = 'episode_created'
    and payload ->> 'through' is not null
  union all
  select id, coalesce(place, 0), coalesce(nullif(metadata ->> 'through', ''), '~'), 0
  from episodes
  where tenant_id = :tenant_id and metadata ->> 'session' = :session
    and exists (
      select from episodes known
      where known.tenant_id = :tenant_id and known.idempotency_key = :session_key
    )
) stored
order by sequence desc, through desc, episode_id
limit 1
