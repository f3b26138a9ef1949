-- upsert_note --
-- Insert or change the agent's note under this key; an archived one is live again.
-- A changed content is no longer confirmed.
insert into agent_memories (id, agent_id, key, content, created_at, updated_at)
values (:id, :agent_id, :key, :content, :now, :now)
on conflict (agent_id, key) do update set
  txid = case when content = excluded.content then txid end,
  status = case when content = excluded.content then status else 'pending' end,
  content = excluded.content,
  archived = 0,
  updated_at = excluded.updated_at
returning id, agent_id, key, content, txid, status, archived, created_at, updated_at;

-- get_note --
-- The agent's note under this key, archived or not.
select id, agent_id, key, content, txid, status, archived, created_at, updated_at
from agent_memories where agent_id = :agent_id and key = :key;

-- recent_notes --
-- The agent's live notes, last changed first.
select id, agent_id, key, content, txid, status, archived, created_at, updated_at
from agent_memories where agent_id = :agent_id and archived = 0
order by updated_at desc, rowid desc limit :limit;

-- recent_notes_of_category --
-- The agent's live notes of one category, last changed first.
select m.id, m.agent_id, m.key, m.content, m.txid, m.status, m.archived, m.created_at, m.updated_at
from agent_memories m join memory_categories c on c.memory_id = m.id
where m.agent_id = :agent_id and m.archived = 0 and c.category = :category
order by m.updated_at desc, m.rowid desc limit :limit;

-- get_category --
-- The category of a note.
select category, confidence from memory_categories where memory_id = :memory_id;

-- set_category --
-- Insert or change a note's category.
insert into memory_categories (memory_id, category, confidence, updated_at)
values (:memory_id, :category, :confidence, :now)
on conflict (memory_id) do update set
  category = excluded.category, confidence = excluded.confidence, updated_at = excluded.updated_at;

-- set_embedding --
-- Insert or change a note's TF-IDF weights.
insert into memory_embeddings (memory_id, vector, vocabulary, updated_at)
values (:memory_id, :vector, :vocabulary, :now)
on conflict (memory_id) do update set
  vector = excluded.vector, vocabulary = excluded.vocabulary, updated_at = excluded.updated_at;

-- count_file --
-- How many agents have notes here, and how many live notes there are.
select count(*), coalesce(sum(documents), 0) from memory_owners;

-- count_notes --
-- An agent's live and archived notes, and the last change of any.
select coalesce(sum(archived = 0), 0), coalesce(sum(archived = 1), 0), max(updated_at)
from agent_memories where agent_id = :agent_id;

-- count_categories --
-- An agent's live notes by category.
select c.category, count(*)
from agent_memories m join memory_categories c on c.memory_id = m.id
where m.agent_id = :agent_id and m.archived = 0
group by c.category order by c.category;

-- find_owners --
-- Every agent that ever wrote a note.
select agent_id from memory_owners order by number;
