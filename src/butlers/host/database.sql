-- touch --
-- Write the newest clock row unchanged; a database that is only readable refuses.
update clock_believed set at = at where is_last

-- use_little_memory --
-- Let sorts of this transaction spill to disk.
select set_config('work_mem', '64kB', true) as work_mem

-- take_room --
-- Sort about 300 kB on disk; fails if the disk is full, and leaves nothing behind.
select count(distinct repeat(md5(number::text), 4)) as sorted
from generate_series(1, 2000) as number
