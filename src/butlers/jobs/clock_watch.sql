-- get --
-- The latest instant that was believed.
select at, boot, seconds from clock_believed where is_last

-- believe --
-- This instant is believed; a clock that was set back is no reason to forget a later one.
insert into clock_believed (at, boot, seconds)
values (:at, :boot, :seconds)
on conflict (is_last) do update
set at = excluded.at, boot = excluded.boot, seconds = excluded.seconds
where clock_believed.at <= excluded.at

-- accept --
-- This instant is believed because somebody says so, be it earlier or later than the last.
insert into clock_believed (at, boot, seconds)
values (:at, :boot, :seconds)
on conflict (is_last) do update
set at = excluded.at, boot = excluded.boot, seconds = excluded.seconds
