-- {with_pieces} --
-- An episode and the pieces that were stored with it.
tenant_id = :tenant_id and (id = :id or piece is not null and metadata ->> 'part' = :id::text)

-- insert --
-- Insert an episode; one with a known idempotency key is left as it is.
insert into episodes ({new_episode}) values ({new_episode_values})
on conflict (tenant_id, idempotency_key) where idempotency_key is not null do nothing
returning id, expires_at

-- get_source --
-- Where, by whom and when an episode was said, its origin and trust, and whether it is in quarantine.
select butler, session_id, place, author, coalesce(said_at, created_at) as said_at, origin, trust,
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
-- Let an episode and its pieces expire now; what has expired is left as it is.
with before as (
  select id, expires_at as was_expires_at from episodes
  where {with_pieces} and episode_state(expires_at, :now) <> 'expired'
  order by id
  for update
),
forgotten as (
  update episodes set expires_at = :now
  from before
  where episodes.tenant_id = :tenant_id and episodes.id = before.id
)
select was_expires_at from before where id = :id

-- revive --
-- Give an expired episode a new time to expire, and its pieces that expired.
with revived as (
  update episodes
  set expires_at = case
    when piece is null then :expires_at::timestamptz else :piece_expires_at::timestamptz
  end
  where {with_pieces} and episode_state(expires_at, :now) = 'expired'
  returning id, consolidation_status, expires_at
)
select consolidation_status as state, expires_at from revived where id = :id

-- find_recent --
-- The newest active whole episodes of some scopes that are not outdated, none of low trust; of a
-- time, those known then.
with newest as materialized (
  select id, content, importance, created_at, said_at, author, origin, trust, agent, accepted_by
  from episodes
  where tenant_id = :tenant_id and piece is null and is_named_scope(butler, :scope)
    and quarantined is null and trust > 0
    and episode_state(expires_at, coalesce(:known_at::timestamptz, :now)) <> 'expired'
    and created_at <= coalesce(:known_at, 'infinity')
    and coalesce(said_at, created_at) <= coalesce(:as_of::timestamptz, :known_at, 'infinity')
  order by created_at desc, id
  limit 4 * :limit::integer
)
select id, content, importance, created_at, said_at, author, origin, trust, agent, accepted_by
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
  where tenant_id = :tenant_id and metadata ->> 'session' = :session and piece is null
    and exists (
      select from episodes known
      where known.tenant_id = :tenant_id and known.idempotency_key = :session_key
    )
) stored
order by sequence desc, through desc, episode_id
limit 1

-- find_latest_pieces --
-- The latest pieces of sessions in some scopes, the last first; none of low trust.
select id, piece, content, said_at, created_at, author, origin, trust, agent, accepted_by,
  metadata,
  metadata ->> 'session' as session
from episodes
where tenant_id = :tenant_id and piece is not null and is_named_scope(butler, :scope)
  and quarantined is null and trust > 0 and episode_state(expires_at, :now) <> 'expired'
order by said_at desc nulls last, place desc, id
limit :limit

-- find_decisions --
-- What was settled in some sessions, or what replaced it since: by session, in order; not by low
-- trust.
with recursive decided as (
  select session_id, place, id, past_by, 0 as replaced
  from episodes
  where tenant_id = :tenant_id and piece = 'decision' and session_id = any(:sessions)
    and quarantined is null and trust > 0 and episode_state(expires_at, :now) <> 'expired'
  union all
  select d.session_id, d.place, later.id, later.past_by, d.replaced + 1
  from decided d
  join episodes later on later.tenant_id = :tenant_id and later.id = d.past_by
  where d.replaced < 5 and later.quarantined is null
    and episode_state(later.expires_at, :now) <> 'expired'
)
select session_id, min(place) as place, id, max(replaced) > 0 as replaces
from decided
where past_by is null
group by session_id, id
order by session_id, place, id

-- find_parts --
-- The parts of a session and where each begins; not those whose episode was forgotten or erased.
select e.memory_id as episode_id, e.place, e.through, e.since
from (
  select memory_id, (payload ->> 'place')::integer as place, payload ->> 'through' as through,
    coalesce(lag(payload ->> 'through') over (order by sequence), '') as since, sequence
  from memory_events
  where tenant_id = :tenant_id and request_id = :session_key
    and event_type = 'episode_created' and payload ->> 'through' is not null
) e
where not exists (
    select from memory_events gone
    where gone.tenant_id = :tenant_id and gone.memory_id = e.memory_id
      and gone.event_type = 'episode_forgotten'
  )
  and (
    exists (select from episodes where tenant_id = :tenant_id and id = e.memory_id)
    or exists (
      select from memory_events gone
      where gone.tenant_id = :tenant_id and gone.memory_id = e.memory_id
        and gone.event_type in ('episode_expired', 'episode_evicted')
    )
  )
order by e.sequence
