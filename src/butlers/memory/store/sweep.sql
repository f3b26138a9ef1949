-- {judged} --
-- What is made of a memory by what is left of its confidence.
cross join lateral (
  select case
    when effective_confidence < :expiry_threshold then 'spent'
    when effective_confidence < :retrieval_threshold then 'fading'
    else 'active'
  end
) judged (verdict)

-- next_facts --
-- How many facts that can fade come next in id order, and the last of them.
select count(*) as checked, (array_agg(id order by id desc))[1] as last
from (
  select id from facts
  where tenant_id = :tenant_id and validity = 'active' and decay_rate > 0 and id > :after
  order by id
  limit :limit
) page

-- move_facts --
-- The facts of a page go where their confidence puts them. Here as below, a row that somebody is
-- changing right now is left to the next sweep, so that none waits for the other.
with due as (
  select id, fact_state(validity, metadata) as was, verdict, effective_confidence
  from facts
  cross join lateral (
    select effective_confidence(confidence, decay_rate, last_confirmed_at, :now)
  ) measured (effective_confidence)
  {judged}
  where tenant_id = :tenant_id and validity = 'active' and decay_rate > 0
    and id > :after and id <= :last and verdict <> fact_state(validity, metadata)
  order by id
  for no key update of facts skip locked
)
update facts
set validity = case when verdict = 'spent' then 'expired' else validity end,
  metadata = case
    when verdict = 'fading' then metadata || '{"status": "fading"}'
    when verdict = 'active' then metadata - 'status'
    else metadata
  end
from due
where facts.tenant_id = :tenant_id and facts.id = due.id
returning due.id, due.was, due.verdict, due.effective_confidence

-- next_rules --
-- How many rules that can fade come next in id order, and the last of them.
select count(*) as checked, (array_agg(id order by id desc))[1] as last
from (
  select id from rules
  where tenant_id = :tenant_id and rule_state(metadata) <> 'forgotten' and quarantined is null
    and decay_rate > 0 and id > :after
  order by id
  limit :limit
) page

-- move_rules --
-- The rules of a page go where their confidence puts them.
with due as (
  select id, rule_state(metadata) as was, verdict, effective_confidence
  from rules
  cross join lateral (select {rule_confidence}) measured (effective_confidence)
  {judged}
  where tenant_id = :tenant_id and rule_state(metadata) <> 'forgotten' and quarantined is null
    and decay_rate > 0 and id > :after and id <= :last and verdict <> rule_state(metadata)
  order by id
  for no key update of rules skip locked
)
update rules
set metadata = case
  when verdict = 'spent' then metadata || '{"forgotten": true}'
  when verdict = 'fading' then metadata || '{"status": "fading"}'
  else metadata - 'status'
end
from due
where rules.tenant_id = :tenant_id and rules.id = due.id
returning due.id, due.was, due.verdict, due.effective_confidence
