-- touch --
-- What was written last is written once more as it is; a database that is only read refuses.
update clock_believed set at = at where is_last

-- use_little_memory --
-- What is sorted in this transaction does not fit into memory.
select set_config('work_mem', '64kB', true) as work_mem

-- take_room --
-- Some 300 kB are sorted by way of the disk, which needs that much room there and leaves nothing.
select count(distinct repeat(md5(number::text), 4)) as sorted
from generate_series(1, 2000) as number
