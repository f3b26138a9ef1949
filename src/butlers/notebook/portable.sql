-- following --
-- The notes whose owner's name begins so, after one of them, archived or not.
select id, agent_id, key, content, txid, status, archived, created_at, updated_at
from agent_memories
where substr(agent_id, 1, length(:agent_id)) = :agent_id and (agent_id, key) > (:owner, :key)
order by agent_id, key limit :limit;

-- there --
-- The note that has this id, or is kept under this key.
select id, agent_id from agent_memories
where id = :id or (agent_id = :agent_id and key = :key)
order by id = :id desc limit 1;

-- insert --
-- A note as it was.
insert into agent_memories
  (id, agent_id, key, content, txid, status, archived, created_at, updated_at)
values
  (:id, :agent, :key, :content, :txid, :status, :archived, :created_at, :updated_at);

-- overwrite --
-- From here on what is deleted is overwritten.
pragma secure_delete = on;

-- delete --
-- Notes are gone, with what is known about them.
delete from agent_memories where id in (select i.value from json_each(:ids) i);

-- optimize --
-- The full-text index keeps no word of what was deleted.
insert into memory_fts (memory_fts) values ('optimize');

-- vacuum --
-- The file is written anew without what was deleted.
vacuum;

-- checkpoint --
-- What the log still holds is written to the file, and the log emptied.
pragma wal_checkpoint(truncate);
