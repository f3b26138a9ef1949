-- nearest_exact --
-- By the tenant's key, however much of the table it may have: reading the whole table is no quicker.
alter function nearest_exact(text, uuid, halfvec, integer) set enable_seqscan = off;
