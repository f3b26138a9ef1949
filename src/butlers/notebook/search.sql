-- candidates --
-- The owner's notes with any of the terms, by relevance, each with the terms it is weighed by.
with matching as (
  select rowid as number, rank from memory_fts
  where memory_fts match :match and rowid between :first and :last
  order by rank, rowid limit :limit
)
select m.id, m.agent_id, m.key, m.content, m.txid, m.status, m.archived, m.created_at,
  m.updated_at, coalesce(d.leading_terms, d.terms, '{}')
from matching f join memory_documents d on d.number = f.number
  join agent_memories m on m.id = d.memory_id
order by f.rank, f.number;

-- candidates_of_category --
-- The owner's notes of one category with any of the terms, by relevance.
with matching as (
  select f.rowid as number, f.rank as rank, d.memory_id, d.leading_terms, d.terms
  from memory_fts f join memory_documents d on d.number = f.rowid
    join memory_categories c on c.memory_id = d.memory_id
  where memory_fts match :match and f.rowid between :first and :last and c.category = :category
  order by f.rank, f.rowid limit :limit
)
select m.id, m.agent_id, m.key, m.content, m.txid, m.status, m.archived, m.created_at,
  m.updated_at, coalesce(f.leading_terms, f.terms, '{}')
from matching f join agent_memories m on m.id = f.memory_id
order by f.rank, f.number;
