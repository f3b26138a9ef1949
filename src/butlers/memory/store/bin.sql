-- put --
-- Claimed episodes go to the bin, leases and what can be made anew left out.
insert into binned_episodes (tenant_id, episode_id, binned_at, reason, episode)
select e.tenant_id, e.id, :now, :reason, to_jsonb(e) - array[
    'embedding', 'embedding_version_id', 'search_vector', 'leased_until', 'leased_by',
    'retry_count', 'last_error'
  ]
from episodes e
where e.tenant_id = :tenant_id and e.id = any(:ids)

-- remove --
-- Episodes that are in the bin are nowhere else; what they were.
delete from episodes
where tenant_id = :tenant_id and id = any(:ids)
returning id, butler, consolidation_status, created_at, expires_at

-- find --
-- What lies in the bin, the latest first.
select episode_id as id, binned_at, reason, episode ->> 'butler' as butler,
  episode ->> 'content' as content, episode ->> 'consolidation_status' as consolidation_status,
  (episode ->> 'created_at')::timestamptz as created_at
from binned_episodes
where tenant_id = :tenant_id
order by binned_at desc, episode_id
limit :limit

-- text_of --
-- What an episode in the bin says.
select episode ->> 'content' from binned_episodes
where tenant_id = :tenant_id and episode_id = :id

-- take_out --
-- An episode leaves the bin.
delete from binned_episodes
where tenant_id = :tenant_id and episode_id = :id

-- put_back --
-- An episode is again what it was, with vector, words and expiry of its own; none if what it was
-- stored under has been taken meanwhile.
insert into episodes
  ({binned}, tenant_id, expires_at, embedding, embedding_version_id, search_vector)
select {from_bin}, b.tenant_id, :expires_at::timestamptz, :embedding::vector,
  :embedding_version_id::uuid, text_search_vector(:searchable)
from binned_episodes b
cross join lateral jsonb_populate_record(null::episodes, b.episode) e
where b.tenant_id = :tenant_id and b.episode_id = :id
on conflict (tenant_id, idempotency_key) where idempotency_key is not null do nothing
returning consolidation_status

-- empty --
-- What has lain in the bin for long enough is gone for good, the longest there first.
delete from binned_episodes
where tenant_id = :tenant_id and episode_id in (
  select episode_id from binned_episodes
  where tenant_id = :tenant_id and binned_at <= :until
  order by binned_at, episode_id
  limit :limit
)
returning episode_id as id, binned_at, reason
