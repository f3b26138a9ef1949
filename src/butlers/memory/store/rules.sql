-- {in_use} --
-- Rules that have not been forgotten and are not in quarantine.
tenant_id = :tenant_id and rule_state(metadata) <> 'forgotten' and quarantined is null

-- insert --
-- A new candidate, confirmed by its birth; one with a known idempotency key is left as it is.
insert into rules ({new_rule}) values ({new_rule_values})
on conflict (tenant_id, idempotency_key) where idempotency_key is not null do nothing

-- get_by_idempotency_key --
-- The rule stored under a key.
select id from rules
where tenant_id = :tenant_id and idempotency_key = :idempotency_key

-- find_current --
-- Rules for every context, proven first: established, proven, or stated to hold always or never.
select {rule}
from rules
where {in_use} and is_visible_scope(scope, :scope)
  and (
    maturity in ('established', 'proven')
    or trust = 4 and (content ~* '\m(always|never)\M' or metadata ->> 'stated' = 'standing')
  )
  and maturity <> 'anti_pattern'
  and {rule_confidence} >= :least
order by maturity <> 'proven', maturity <> 'established', effectiveness_score desc,
  created_at desc, id
limit :limit

-- lock --
-- One rule, held until the transaction ends so that marks take turns.
select {rule}
from rules
where tenant_id = :tenant_id and id = :id
for update

-- get_same --
-- The oldest rule in use that says the same.
select id from rules
where {in_use} and scope = :scope and lower(content) = lower(:content)
order by created_at, id
limit 1

-- mark --
-- Set what the marks on a rule make of it.
update rules
set applied_count = :applied_count, success_count = :success_count,
  harmful_count = :harmful_count, effectiveness_score = :effectiveness_score,
  maturity = :maturity, metadata = :metadata, last_applied_at = :last_at,
  last_evaluated_at = :last_at, last_confirmed_at = :confirmed_at
where tenant_id = :tenant_id and id = :id

-- reword --
-- Turn a rule into a warning or back, with the vector and text index of its new wording.
update rules
set maturity = :maturity, content = :content, metadata = :metadata, embedding = :embedding,
  embedding_version_id = :embedding_version_id,
  search_vector = to_tsvector('english', :searchable), last_evaluated_at = :last_at
where tenant_id = :tenant_id and id = :id

-- confirm --
-- A rule is sure again; fading ends at once.
update rules
set last_confirmed_at = :now,
  metadata = case
    when metadata ->> 'status' = 'fading' then metadata - 'status' else metadata
  end
from (
  select id, last_confirmed_at as was_confirmed_at, rule_state(metadata) as was
  from rules where {in_use} and id = :id for update
) before
where rules.tenant_id = :tenant_id and rules.id = before.id
returning before.was_confirmed_at, before.was

-- forget --
-- A rule nobody is shown any more; one already forgotten stays as it is.
update rules
set metadata = metadata || '{"forgotten": true}'
where tenant_id = :tenant_id and id = :id and rule_state(metadata) <> 'forgotten'
returning rule_state(metadata - 'forgotten', quarantined)

-- restore --
-- A forgotten rule is in use again.
update rules set metadata = metadata - 'forgotten'
where tenant_id = :tenant_id and id = :id and rule_state(metadata) = 'forgotten'
returning rule_state(metadata, quarantined)

-- find_awaiting_inversion --
-- The rules that are to become warnings and are not yet.
select id, content, maturity, metadata, rule_state(metadata) as state
from rules
where {in_use} and metadata -> 'needs_inversion' = 'true' and maturity <> 'anti_pattern'
order by id

-- insert_application --
-- One use of a rule and what came of it.
insert into rule_applications
  (id, tenant_id, rule_id, outcome, reason, context, request_id, actor, origin, counted, created_at)
values
  (:id, :tenant_id, :rule_id, :outcome, :reason, :context, :request_id, :actor, :origin, :counted,
   :now)

-- find_counted_applications --
-- The marks that a rule stands by, in the order they were made.
select id, outcome, reason, actor, origin, created_at
from counted_reports(:tenant_id, :rule_id)
order by created_at, id

-- find_applications --
-- The applications of a rule, newest first; what was taken back does not count.
select id, rule_id, outcome, reason, context, request_id, actor, origin,
  id in (select m.id from counted_reports(:tenant_id, :rule_id) m) as counted, created_at
from rule_applications
where tenant_id = :tenant_id and rule_id = :rule_id
order by created_at desc, id desc
limit :limit

-- find_harmful_applications --
-- What harm a rule did by the marks it stands by, the latest first.
select created_at as at, actor as by, reason
from counted_reports(:tenant_id, :rule_id)
where outcome = 'harmful' and reason is not null
order by created_at desc, id desc
limit :limit
