-- matching_notes --
-- The owner's other notes with any of the terms, by relevance, with all their terms.
with matching as (
  select rowid as number, rank from memory_fts
  where memory_fts match :match and rowid between :first and :last
  order by rank, rowid limit :limit
)
select d.memory_id, d.terms
from matching f join memory_documents d on d.number = f.number
where d.memory_id <> :memory_id and d.terms is not null
order by f.rank, f.number;

-- latest_matching_notes --
-- The owner's other notes with any of the terms, last written first, without ranking.
with matching as (
  select rowid as number from memory_fts
  where memory_fts match :match and rowid between :first and :last
  order by rowid desc limit :limit
)
select d.memory_id, d.terms
from matching f join memory_documents d on d.number = f.number
where d.memory_id <> :memory_id and d.terms is not null
order by f.number desc;

-- unlink_note --
-- Delete the references to a note and from it.
delete from memory_cross_refs where source_id = :memory_id or target_id = :memory_id;

-- insert_reference --
-- Insert a reference from one note to another.
insert into memory_cross_refs (source_id, target_id, score, created_at)
values (:source_id, :target_id, :score, :now);

-- weakest_references --
-- The weakest reference of each of these sources that has no free one.
select r.source_id, min(r.score) from memory_cross_refs r
where r.source_id in (select s.value from json_each(:sources) s)
group by r.source_id having count(*) >= :most order by r.source_id;

-- drop_weakest_reference --
-- Delete the weakest reference of a source.
delete from memory_cross_refs
where source_id = :source_id and target_id = (
  select r.target_id from memory_cross_refs r where r.source_id = :source_id
  order by r.score, r.target_id desc limit 1);

-- related_notes --
-- The live notes a note refers to, the most similar first.
select m.id, m.agent_id, m.key, m.content, m.txid, m.status, m.archived, m.created_at, m.updated_at,
  r.score
from memory_cross_refs r join agent_memories m on m.id = r.target_id
where r.source_id = :memory_id and m.archived = 0
order by r.score desc, m.id limit :limit;
