-- insert --
-- A link that exists already is left as it is.
insert into memory_links
  (tenant_id, source_type, source_id, target_type, target_id, relation, created_at)
values
  (:tenant_id, :source_type, :source_id, :target_type, :target_id, :relation, :now)
on conflict do nothing

-- of_memory --
-- The links of one memory in the wanted directions.
select source_type, source_id, target_type, target_id, relation, created_at
from memory_links
where tenant_id = :tenant_id
  and (
    (:outgoing::boolean and source_type = :memory_type and source_id = :memory_id)
    or (:incoming::boolean and target_type = :memory_type and target_id = :memory_id)
  )
order by created_at, source_id, target_id, source_type, target_type
