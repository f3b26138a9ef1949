-- {shown} --
-- Pieces that may be shown.
e.tenant_id = :tenant_id and e.quarantined is null and episode_state(e.expires_at, :now) <> 'expired'

-- {settles} --
-- Decisions, and words of the user that made others past where no decision was taken from them.
{shown} and (
    e.piece = 'decision'
    or e.piece in ('said', 'answer') and e.id in (
      select o.past_by from episodes o
      where o.tenant_id = :tenant_id and o.past_by is not null and o.past_by <> o.id
    )
    and not exists (
      select from episodes d
      where d.tenant_id = :tenant_id and d.piece = 'decision'
        and d.metadata ->> 'part' = e.metadata ->> 'part'
    )
  )

-- {own_words} --
-- What the user said of an exchange, before the answer to it.
split_part(e.content, ' → ', 1)

-- {later_active} --
-- The piece that made a decision past, while it may be shown itself.
episodes later on later.tenant_id = :tenant_id and later.id = e.past_by
  and later.quarantined is null and episode_state(later.expires_at, :now) <> 'expired'

-- find_present --
-- The newest decisions of some scopes that hold, those of low trust last.
select e.id, e.content, e.butler as scope, e.session_id, e.said_at, e.created_at, e.author, e.origin,
  e.trust, e.agent, e.accepted_by, e.piece, coalesce(e.said_at, e.created_at) as decided_at
from episodes e
left join {later_active}
where {settles} and later.id is null and (:scope::text is null or is_named_scope(e.butler, :scope))
order by e.trust = 0, decided_at desc, coalesce(e.place, 0) desc, e.id
limit :limit

-- find_past --
-- The newest decisions of some scopes that hold no longer, each with what made it past and when;
-- not the words that a decision among them quotes.
select e.id, e.content, e.past_by, e.butler as scope, coalesce(e.said_at, e.created_at) as decided_at,
  coalesce((e.metadata ->> 'past_at')::timestamptz, later.said_at, later.created_at) as until
from episodes e
join {later_active}
where {shown} and (:scope::text is null or is_named_scope(e.butler, :scope))
  and (
    e.piece = 'decision'
    or e.piece in ('said', 'answer') and not exists (
      select from episodes d
      where d.tenant_id = :tenant_id and d.piece = 'decision' and d.past_by = e.past_by
        and d.metadata ->> 'part' = e.metadata ->> 'part'
    )
  )
order by until desc, e.id
limit :limit

-- find_comparable --
-- Decisions and short words that hold in the scope of a new one: how near, and which came first.
-- Of other sessions only: within one, sentences complete each other.
select e.id, {own_words} as content, e.piece,
  case
    when e.embedding_version_id = n.embedding_version_id then 1 - (e.embedding <=> n.embedding)
    else 0
  end as near,
  (coalesce(e.said_at, e.created_at), coalesce(e.place, 0))
    <= (coalesce(n.said_at, n.created_at), coalesce(n.place, 0)) as is_earlier,
  e.trust - n.trust as trusted_more,
  coalesce(e.metadata -> 'present_despite' ? n.id::text, false) as was_kept
from episodes n
join episodes e on e.butler = n.butler and e.id <> n.id
where n.tenant_id = :tenant_id and n.id = :id and n.quarantined is null and n.past_by is null
  and {shown} and e.past_by is null
  and e.metadata ->> 'session' is distinct from n.metadata ->> 'session'
  and (e.piece = 'decision' or e.piece in ('said', 'answer') and length({own_words}) <= :longest)
order by e.trust = 0, e.piece, coalesce(e.said_at, e.created_at) desc, e.id
limit :most

-- find_quoting --
-- The words of user and agent from which a decision was taken.
select q.id, q.content, q.past_by
from episodes e
join episodes q on q.tenant_id = :tenant_id and q.metadata ->> 'part' = e.metadata ->> 'part'
  and q.piece in ('said', 'answer')
where e.tenant_id = :tenant_id and e.id = :id and q.past_by is not distinct from :past_by::uuid
order by q.id

-- lock --
-- Lock a decision until the transaction ends.
select e.id, e.content, e.past_by, e.butler as scope, coalesce(e.said_at, e.created_at) as decided_at
from episodes e
where {shown} and e.piece in ('decision', 'said', 'answer') and e.id = :id
for update

-- set_past --
-- Make pieces past; `past` has when a person said so.
update episodes
set past_by = :past_by, metadata = metadata || :past::jsonb
where tenant_id = :tenant_id and id = any(:ids) and piece is not null

-- set_present --
-- Let pieces hold again, whatever the piece says that had made them past.
update episodes
set past_by = null,
  metadata = jsonb_set(
    metadata - 'past_at', '{present_despite}',
    coalesce(metadata -> 'present_despite', '[]') || ('["' || past_by::text || '"]')::jsonb
  )
where tenant_id = :tenant_id and id = any(:ids) and past_by is not null
