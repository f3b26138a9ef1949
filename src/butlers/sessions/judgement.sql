-- judge --
-- Record what became of the memories of an injection.
update injections set verdicts = :verdicts where tenant_id = :tenant_id and id = :id

-- find_marks --
-- The latest mark of each rule since an instant, by the memory tools or a person.
select distinct on (rule_id) rule_id, outcome
from rule_applications
where tenant_id = :tenant_id and rule_id = any(:ids) and created_at >= :since and counted
order by rule_id, created_at desc
