-- moves --
-- How many facts and episodes went from which state to which, by day; what was before the first
-- day counts as of that day.
select memory_type, event_type,
  greatest((created_at at time zone 'UTC')::date, :first_day::date) as day,
  payload ->> 'from' as was, payload ->> 'to' as became, count(*) as count
from memory_events
where tenant_id = :tenant_id and memory_type in ('fact', 'episode')
  and (created_at at time zone 'UTC')::date <= :last_day::date
group by 1, 2, 3, 4, 5
order by 1, 2, 3, 4, 5
