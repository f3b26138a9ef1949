-- insert --
-- One use of a rule and what came of it.
insert into rule_applications
  (id, tenant_id, rule_id, outcome, reason, context, request_id, actor, created_at)
values
  (:id, :tenant_id, :rule_id, :outcome, :reason, :context, :request_id, :actor, :now)

-- find --
-- The applications of a rule, newest first.
select id, rule_id, outcome, reason, context, request_id, actor, created_at
from rule_applications
where tenant_id = :tenant_id and rule_id = :rule_id
order by created_at desc, id desc
limit :limit
