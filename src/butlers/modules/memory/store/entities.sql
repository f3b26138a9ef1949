-- hold_living --
-- An entity a fact may name, kept from being merged away until the transaction ends.
select id, metadata ->> 'merged_into' as merged_into
from entities
where tenant_id = :tenant_id and id = :id
for share
