-- get --
-- The latest instant that was believed of this machine since it was started, else of any.
select at, boot, seconds from (
  select at, boot, seconds, 0 as place from clock_boots where boot = :boot
  union all
  select at, boot, seconds, 1 as place from clock_believed where is_last
) as known
order by place
limit 1

-- believe --
-- Record an instant that is believed; an earlier one than the last only if somebody accepts it.
insert into clock_believed (at, boot, seconds)
values (:at, :boot, :seconds)
on conflict (is_last) do update
set at = excluded.at, boot = excluded.boot, seconds = excluded.seconds
where clock_believed.at <= excluded.at or :is_accepted

-- believe_boot --
-- This instant is believed of this machine since it was started.
insert into clock_boots (boot, at, seconds)
select :boot, :at, :seconds where :boot::text <> ''
on conflict (boot) do update
set at = excluded.at, seconds = excluded.seconds
where clock_boots.at <= excluded.at or :is_accepted
