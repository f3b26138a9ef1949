-- take_turn --
-- Lock, so that two completions cannot both be the last of the day.
select pg_advisory_xact_lock(hashtextextended('butlers.language_model_spend', 0))

-- spent --
-- What a day's completions of one account cost so far, and how many are running.
select
  count(*) as runs,
  coalesce(sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)), 0)::bigint as tokens,
  coalesce(sum(cost_usd), 0) as cost_usd,
  count(*) filter (where outcome = 'running' and ends_by > :now) as under_way
from language_model_spend
where day = :day and account = :account
  and (:tenant::text is null or tenant_id = :tenant)

-- unanswered --
-- How many completions in a row were not answered, the end of the last, and whether one is running.
select
  count(*) filter (where outcome = 'unreached') as times,
  max(finished_at) filter (where outcome = 'unreached') as last_at,
  coalesce(bool_or(outcome = 'running' and ends_by > :now), false) as asking
from language_model_spend
where account = :account and id > coalesce((
  select max(id) from language_model_spend
  where account = :account and outcome in ('ok', 'failed')
), 0)

-- reserve --
-- Count a completion before it is asked for.
insert into language_model_spend
  (day, account, tenant_id, runtime, label, outcome, started_at, ends_by)
values (:day, :account, :tenant, :runtime, :label, 'running', :now, :ends_by)
returning id

-- settle --
-- End a completion, with its cost as far as the runtime reports it.
update language_model_spend
set outcome = :outcome, finished_at = :now, input_tokens = :input_tokens,
  output_tokens = :output_tokens, cost_usd = :cost_usd
where id = :id

-- days --
-- What each day cost on all accounts, the newest first; empty days are left out.
select
  day,
  count(*) as runs,
  count(*) filter (where outcome in ('failed', 'unreached')) as failed,
  coalesce(sum(input_tokens), 0)::bigint as input_tokens,
  coalesce(sum(output_tokens), 0)::bigint as output_tokens,
  coalesce(sum(cost_usd), 0) as cost_usd
from language_model_spend
where day > :after
group by day
order by day desc
