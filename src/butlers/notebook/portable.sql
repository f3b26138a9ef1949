-- following --
-- The notes of owners with this prefix after one of them, archived or not.
select id, agent_id, key, content, txid, status, archived, created_at, updated_at
from agent_memories
where substr(agent_id, 1, length(:agent_id)) = :agent_id and (agent_id, key) > (:owner, :key)
order by agent_id, key limit :limit;

-- known --
-- The note that has this id or this key.
select id, agent_id from agent_memories
where id = :id or (agent_id = :agent_id and key = :key)
order by id = :id desc limit 1;

-- insert --
-- Insert a note as it was exported.
insert into agent_memories
  (id, agent_id, key, content, txid, status, archived, created_at, updated_at)
values
  (:id, :agent, :key, :content, :txid, :status, :archived, :created_at, :updated_at);

-- overwrite --
-- Overwrite what is deleted from here on.
pragma secure_delete = on;

-- delete --
-- Delete notes; their index, category and references follow.
delete from agent_memories where id in (select i.value from json_each(:ids) i);

-- optimize --
-- Remove the words of deleted notes from the full-text index.
insert into memory_fts (memory_fts) values ('optimize');

-- vacuum --
-- Rewrite the file without what was deleted.
vacuum;

-- checkpoint --
-- Write the log to the file and empty it.
pragma wal_checkpoint(truncate);
