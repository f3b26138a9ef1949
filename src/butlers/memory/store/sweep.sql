-- fact_page --
-- How many facts that can fade come next in id order, and the last of them.
select count(*) as checked, (array_agg(id order by id desc))[1] as last
from (
  select id from facts
  where tenant_id = :tenant_id and validity = 'active' and decay_rate > 0 and id > :after
  order by id
  limit :limit
) page

-- expire_facts --
-- The facts of a page that nobody can be sure of any more expire. Here as below, a row that
-- somebody is changing right now is left to the next sweep, so that none waits for the other.
with due as (
  select id, case when metadata ->> 'status' = 'fading' then 'fading' else 'active' end as was,
    effective_confidence(confidence, decay_rate, last_confirmed_at, :now) as effective_confidence
  from facts
  where tenant_id = :tenant_id and validity = 'active' and decay_rate > 0
    and id > :after and id <= :last
    and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) >= :least
    and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) < :below
  order by id
  for no key update skip locked
)
update facts set validity = 'expired'
from due
where facts.tenant_id = :tenant_id and facts.id = due.id
returning due.id, due.was, due.effective_confidence

-- fade_facts --
-- The facts of a page that are no longer sure enough to be retrieved fade.
with due as (
  select id, 'active' as was,
    effective_confidence(confidence, decay_rate, last_confirmed_at, :now) as effective_confidence
  from facts
  where tenant_id = :tenant_id and validity = 'active' and decay_rate > 0
    and id > :after and id <= :last and metadata ->> 'status' is distinct from 'fading'
    and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) >= :least
    and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) < :below
  order by id
  for no key update skip locked
)
update facts set metadata = facts.metadata || '{"status": "fading"}'
from due
where facts.tenant_id = :tenant_id and facts.id = due.id
returning due.id, due.was, due.effective_confidence

-- recover_facts --
-- The fading facts of a page that are sure again fade no more.
with due as (
  select id, 'fading' as was,
    effective_confidence(confidence, decay_rate, last_confirmed_at, :now) as effective_confidence
  from facts
  where tenant_id = :tenant_id and validity = 'active' and decay_rate > 0
    and id > :after and id <= :last and metadata ->> 'status' = 'fading'
    and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) >= :least
    and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) < :below
  order by id
  for no key update skip locked
)
update facts set metadata = facts.metadata - 'status'
from due
where facts.tenant_id = :tenant_id and facts.id = due.id
returning due.id, due.was, due.effective_confidence

-- rule_page --
-- How many rules that can fade come next in id order, and the last of them.
select count(*) as checked, (array_agg(id order by id desc))[1] as last
from (
  select id from rules
  where tenant_id = :tenant_id and decay_rate > 0 and id > :after
    and metadata -> 'forgotten' is distinct from 'true'
  order by id
  limit :limit
) page

-- forget_rules --
-- The rules of a page that nobody can be sure of any more are forgotten.
with due as (
  select id, case when metadata ->> 'status' = 'fading' then 'fading' else 'active' end as was,
    effective_confidence(confidence, decay_rate, last_confirmed_at, :now) as effective_confidence
  from rules
  where tenant_id = :tenant_id and decay_rate > 0 and id > :after and id <= :last
    and metadata -> 'forgotten' is distinct from 'true'
    and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) >= :least
    and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) < :below
  order by id
  for no key update skip locked
)
update rules set metadata = rules.metadata || '{"forgotten": true}'
from due
where rules.tenant_id = :tenant_id and rules.id = due.id
returning due.id, due.was, due.effective_confidence

-- fade_rules --
-- The rules of a page that are no longer sure enough to be retrieved fade.
with due as (
  select id, 'active' as was,
    effective_confidence(confidence, decay_rate, last_confirmed_at, :now) as effective_confidence
  from rules
  where tenant_id = :tenant_id and decay_rate > 0 and id > :after and id <= :last
    and metadata -> 'forgotten' is distinct from 'true'
    and metadata ->> 'status' is distinct from 'fading'
    and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) >= :least
    and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) < :below
  order by id
  for no key update skip locked
)
update rules set metadata = rules.metadata || '{"status": "fading"}'
from due
where rules.tenant_id = :tenant_id and rules.id = due.id
returning due.id, due.was, due.effective_confidence

-- recover_rules --
-- The fading rules of a page that are sure again fade no more.
with due as (
  select id, 'fading' as was,
    effective_confidence(confidence, decay_rate, last_confirmed_at, :now) as effective_confidence
  from rules
  where tenant_id = :tenant_id and decay_rate > 0 and id > :after and id <= :last
    and metadata -> 'forgotten' is distinct from 'true' and metadata ->> 'status' = 'fading'
    and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) >= :least
    and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) < :below
  order by id
  for no key update skip locked
)
update rules set metadata = rules.metadata - 'status'
from due
where rules.tenant_id = :tenant_id and rules.id = due.id
returning due.id, due.was, due.effective_confidence
