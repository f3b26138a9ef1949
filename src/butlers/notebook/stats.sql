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
