-- old_keys --
-- The keys of an agent's live notes not changed since a moment, without summaries.
select key from agent_memories
where agent_id = :agent_id and archived = 0 and updated_at < :before
  and substr(key, 1, length(:summaries)) <> :summaries
order by key;

-- old_notes --
-- The agent's live notes under these keys, if not changed since that moment, oldest first.
select id, agent_id, key, content, txid, status, archived, created_at, updated_at
from agent_memories
where agent_id = :agent_id and archived = 0 and updated_at < :before
  and key in (select k.value from json_each(:keys) k)
order by updated_at, key;

-- archive_notes --
-- Archive notes: they keep their keys but are no longer listed, found or referred to.
update agent_memories set archived = 1 where id in (select i.value from json_each(:ids) i);
