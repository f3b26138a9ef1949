-- get_version --
-- The version whose ways of counting and categorizing every note of the file follows.
pragma user_version;

-- set_version --
-- Every note follows version 1.
pragma user_version = 1;

-- following_notes --
-- The notes of the whole file after one id, with their terms as far as they are counted.
select m.id, m.agent_id, m.key, m.content, m.txid, m.status, m.archived, m.created_at,
  m.updated_at, d.terms
from agent_memories m left join memory_documents d on d.memory_id = m.id
where m.id > :id order by m.id limit :limit;

-- reenter_note --
-- A live note leaves the index and enters it again, with its terms still to be counted.
update agent_memories set archived = archived where id = :memory_id;
