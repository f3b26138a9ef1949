-- insert --
-- One use of a rule and what came of it.
insert into rule_applications
  (id, tenant_id, rule_id, outcome, reason, context, request_id, actor, origin, counted, created_at)
values
  (:id, :tenant_id, :rule_id, :outcome, :reason, :context, :request_id, :actor, :origin, :counted,
   :now)

-- find_counted --
-- The marks that a rule stands by, in the order they were made.
select id, outcome, reason, actor, origin, created_at
from counted_reports(:tenant_id, :rule_id)
order by created_at, id

-- find --
-- The applications of a rule, newest first; what was taken back does not count.
select id, rule_id, outcome, reason, context, request_id, actor, origin,
  id in (select m.id from counted_reports(:tenant_id, :rule_id) m) as counted, created_at
from rule_applications
where tenant_id = :tenant_id and rule_id = :rule_id
order by created_at desc, id desc
limit :limit

-- find_harm --
-- What harm a rule did by the marks it stands by, the latest first.
select created_at as at, actor as by, reason
from counted_reports(:tenant_id, :rule_id)
where outcome = 'harmful' and reason is not null
order by created_at desc, id desc
limit :limit
