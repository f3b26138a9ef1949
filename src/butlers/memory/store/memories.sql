-- {kind}: episode, fact, rule --
-- get_{kind}_trust --
-- How far a memory is trusted; no row where the tenant has no such memory.
select trust from {kind}s where tenant_id = :tenant_id and id = :id

-- find_{kind}s --
-- Memories as they are, without counting it as a use.
select {{kind}}
from {kind}s
where tenant_id = :tenant_id and id = any(:ids)
order by created_at desc, id

-- get_{kind}_by_key --
-- Load the memory with an idempotency key, without its text.
select id, {{kind}_columns} from {kind}s
where tenant_id = :tenant_id and idempotency_key = :idempotency_key
