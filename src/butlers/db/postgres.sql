-- lock_names --
-- Take advisory locks on names until the transaction ends, always in the same order.
select pg_advisory_xact_lock(hashtextextended(name, 0))
from (select distinct unnest(:names::text[]) as name order by 1) ordered
