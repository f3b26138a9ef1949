-- get_owner --
-- The agent's number in the index and how many of its notes are counted.
select number, documents from memory_owners where agent_id = :agent_id;

-- count_terms --
-- Store the terms of a live note; a trigger counts them.
update memory_documents set leading_terms = :leading_terms, terms = :terms
where memory_id = :memory_id;

-- find_uncounted --
-- Live notes whose terms are not counted.
select m.id, m.agent_id, m.key, m.content, m.txid, m.status, m.archived, m.created_at, m.updated_at
from memory_documents d join agent_memories m on m.id = d.memory_id
where d.terms is null order by d.number limit :limit;

-- document_frequencies --
-- How many of an owner's live notes contain each of the terms.
select f.term, f.documents
from json_each(:terms) t cross join memory_frequencies f on f.owner = :owner and f.term = t.value;

-- get_version --
-- The version by which the notes of the file were counted and categorized.
pragma user_version;

-- set_version --
-- All notes are counted and categorized by version 1.
pragma user_version = 1;

-- following_notes --
-- The notes of the whole file after one id, with their terms as far as they are counted.
select m.id, m.agent_id, m.key, m.content, m.txid, m.status, m.archived, m.created_at,
  m.updated_at, d.terms
from agent_memories m left join memory_documents d on d.memory_id = m.id
where m.id > :id order by m.id limit :limit;

-- reenter_note --
-- Index a live note again, with its terms still to be counted.
update agent_memories set archived = archived where id = :memory_id;
