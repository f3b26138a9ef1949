-- insert --
-- A new episode; one with a known idempotency key is left as it is.
insert into episodes ({new_episode}) values ({new_episode_values})
on conflict (tenant_id, idempotency_key) where idempotency_key is not null do nothing
returning id, expires_at

-- get_by_idempotency_key --
-- The episode stored under a key.
select id, expires_at from episodes
where tenant_id = :tenant_id and idempotency_key = :idempotency_key

-- get_circumstances --
-- Where, by whom and when an episode was said.
select session_id, place, author, coalesce(said_at, created_at) as said_at from episodes
where tenant_id = :tenant_id and id = :id

-- get_trust --
-- How far an episode is trusted.
select trust from episodes where tenant_id = :tenant_id and id = :id

-- exists --
-- Whether the tenant has this episode.
select true from episodes where tenant_id = :tenant_id and id = :id

-- get_source --
-- Whose an episode is, how far it is trusted, and whether it is in quarantine.
select butler, trust, quarantined is not null as is_held from episodes
where tenant_id = :tenant_id and id = :id

-- find --
-- Episodes as they are, without counting it as a use.
select {episode}
from episodes
where tenant_id = :tenant_id and id = any(:ids)
order by created_at desc, id

-- find_texts --
-- What episodes say, whose and of when.
select id, butler, content, created_at from episodes
where tenant_id = :tenant_id and id = any(:ids)
order by created_at desc, id

-- find_sources --
-- The episodes that a memory was drawn from and that are told, held; whether something else that
-- holds was drawn from them.
select e.id, e.content, e.trust, (
    exists (
      select from facts f
      where f.tenant_id = :tenant_id and f.id <> :id and f.validity = 'active' and (
        f.source_episode_id = e.id or exists (
          select from memory_links l
          where l.tenant_id = :tenant_id and l.source_type = 'fact' and l.source_id = f.id
            and l.target_type = 'episode' and l.target_id = e.id and l.relation = 'derived_from'
        )
      )
    )
    or exists (
      select from rules r
      where r.tenant_id = :tenant_id and r.id <> :id and is_rule_current(r, null) and (
        r.source_episode_id = e.id or exists (
          select from memory_links l
          where l.tenant_id = :tenant_id and l.source_type = 'rule' and l.source_id = r.id
            and l.target_type = 'episode' and l.target_id = e.id and l.relation = 'derived_from'
        )
      )
    )
  ) as serves
from episodes e
where e.tenant_id = :tenant_id and episode_state(e.expires_at, :now, e.quarantined) = 'active'
  and e.id in (
    select source_episode_id from facts
    where tenant_id = :tenant_id and id = :id and :kind = 'fact'
    union all
    select source_episode_id from rules
    where tenant_id = :tenant_id and id = :id and :kind = 'rule'
    union all
    select target_id from memory_links
    where tenant_id = :tenant_id and source_type = :kind and source_id = :id
      and target_type = 'episode' and relation = 'derived_from'
  )
order by e.created_at, e.id
for update of e

-- forget --
-- An episode that expires now; one already expired keeps its moment.
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
-- An episode that had expired lives on until another day.
update episodes
set expires_at = :expires_at::timestamptz
where tenant_id = :tenant_id and id = :id and episode_state(expires_at, :now) = 'expired'
returning consolidation_status

-- find_recent --
-- The newest episodes of some scopes that have not expired, but for those that are outdated, of
-- some more; of a time, those that were said until then, and known.
with newest as materialized (
  select id, content, importance, created_at, origin, trust
  from episodes
  where tenant_id = :tenant_id and is_named_scope(butler, :scope) and quarantined is null
    and episode_state(expires_at, coalesce(:known_at::timestamptz, :now)) <> 'expired'
    and created_at <= coalesce(:known_at, 'infinity')
    and coalesce(said_at, created_at) <= coalesce(:as_of::timestamptz, :known_at, 'infinity')
  order by created_at desc, id
  limit 4 * :limit::integer
)
select id, content, importance, created_at, origin, trust
from newest
where outdated_by(:tenant_id, id, :now, :as_of, :known_at) is null
order by created_at desc, id
limit :limit

-- get_last_part --
-- The part of a session that was stored last, though its episode may be gone since: the audit
-- stream remembers it. Before it did, the episodes themselves said how far they reach.
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
