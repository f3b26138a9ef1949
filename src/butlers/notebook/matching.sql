-- holding_terms --
-- An owner's terms that contain any of the parts, those with the most first.
select f.term
from memory_frequencies f join json_each(:parts) p on instr(f.term, p.value) > 0
where f.owner = :owner
group by f.term order by count(*) desc, f.term limit :limit;
