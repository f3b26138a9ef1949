-- find_candidates --
-- What is known of a question, then what may answer it.
select stale, words, bare_words, counts, total, memory_type, id, created_at, said_at, session_id,
  place, author, entity_id, length, similarity, bare_similarity, rank, meaning_place, bare_place,
  words_place, matched, impacts, places
from find_candidates(
  :tenant_id, :version_id, :asked, :bare, :near, :near_bare, :types, :scope, :min_confidence, :now,
  :depth, :names_known, :total_known, :read_whole
)
order by stale nulls last, meaning_place, words_place, bare_place

-- tell_memories --
-- Memories as their readers get them.
select memory_type, id, told from tell_memories(:tenant_id, :types, :ids, :now) order by id

-- tenant_standing --
-- The models a tenant knows, the names of its people and how many memories it has.
select versions, names, memories from tenant_standing(:tenant_id) order by versions
