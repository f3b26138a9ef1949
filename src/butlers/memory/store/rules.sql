-- {in_use} --
-- Rules that are neither forgotten nor in quarantine.
tenant_id = :tenant_id and rule_state(metadata) <> 'forgotten' and quarantined is null

-- insert --
-- Insert a candidate; one with a known idempotency key is left as it is.
insert into rules ({new_rule}) values ({new_rule_values})
on conflict (tenant_id, idempotency_key) where idempotency_key is not null do nothing

-- find_current --
-- Rules for every context, proven first: established, proven, or stated to hold always or never.
-- Those of low trust come last.
select {rule}
from rules
where {in_use} and is_visible_scope(scope, :scope)
  and (
    maturity in ('established', 'proven')
    or trust = 4 and (content ~* '\m(always|never)\M' or metadata ->> 'stated' = 'standing')
  )
  and maturity <> 'anti_pattern'
  and {rule_confidence} >= :least
order by trust = 0, not {from_person}, maturity <> 'proven', maturity <> 'established',
  effectiveness_score desc, created_at desc, id
limit :limit

-- lock --
-- Lock a rule until the transaction ends.
select {rule}
from rules
where tenant_id = :tenant_id and id = :id
for update

-- get_same --
-- Find the oldest rule in use with the same text; one of low trust only for low trust.
select id from rules
where {in_use} and scope = :scope and lower(content) = lower(:content)
  and trust >= least(:trust::integer, 1)
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
-- Confirm a rule; fading ends.
update rules
set last_confirmed_at = :now, accepted_by = coalesce(:accepted_by, accepted_by),
  metadata = case
    when metadata ->> 'status' = 'fading' then metadata - 'status' else metadata
  end
from (
  select id, last_confirmed_at as was_confirmed_at, rule_state(metadata) as was
  from rules where {in_use} and id = :id for update
) before
where rules.tenant_id = :tenant_id and rules.id = before.id
returning before.was_confirmed_at, before.was

-- clear_report --
-- A person has decided on a rule that was reported harmful.
update rules
set metadata = metadata - 'reported_harmful'
where tenant_id = :tenant_id and id = :id and metadata -> 'reported_harmful' = 'true'

-- forget --
-- Forget a rule; one already forgotten is left as it is.
update rules
set metadata = metadata || '{"forgotten": true}'
where tenant_id = :tenant_id and id = :id and rule_state(metadata) <> 'forgotten'
returning rule_state(metadata - 'forgotten', quarantined)

-- restore --
-- Restore a forgotten rule.
update rules set metadata = metadata - 'forgotten'
where tenant_id = :tenant_id and id = :id and rule_state(metadata) = 'forgotten'
returning rule_state(metadata, quarantined)

-- find_awaiting_inversion --
-- Find rules that wait to become warnings.
select id, content, maturity, metadata, rule_state(metadata) as state
from rules
where {in_use} and metadata -> 'needs_inversion' = 'true' and maturity <> 'anti_pattern'
order by id

-- insert_application --
-- Insert a use of a rule and its outcome.
insert into rule_applications
  (id, tenant_id, rule_id, outcome, reason, context, request_id, actor, origin, counted, created_at)
values
  (:id, :tenant_id, :rule_id, :outcome, :reason, :context, :request_id, :actor, :origin, :counted,
   :now)

-- find_counted_applications --
-- Find the reports on a rule that count, oldest first.
select id, outcome, reason, actor, origin, created_at
from counted_reports(:tenant_id, :rule_id)
order by created_at, id

-- find_applications --
-- Find the uses of a rule, newest first, and whether each counts.
select id, rule_id, outcome, reason, context, request_id, actor, origin,
  id in (select m.id from counted_reports(:tenant_id, :rule_id) m) as counted, created_at
from rule_applications
where tenant_id = :tenant_id and rule_id = :rule_id
order by created_at desc, id desc
limit :limit

-- find_harmful_applications --
-- Find the harm that counted reports name, latest first.
select created_at as at, actor as by, reason
from counted_reports(:tenant_id, :rule_id)
where outcome = 'harmful' and reason is not null
order by created_at desc, id desc
limit :limit
