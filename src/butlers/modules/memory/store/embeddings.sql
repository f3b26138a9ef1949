-- register_version --
-- Record the model in use for this tenant; a known one keeps its id.
with added as (
  insert into embedding_versions (id, tenant_id, model, version, dimensions, created_at)
  values (:id, :tenant_id, :model, :version, :dimensions, :now)
  on conflict (tenant_id, model, version) do nothing
  returning id
)
select id from added
union all
select id from embedding_versions
where tenant_id = :tenant_id and model = :model and version = :version
order by id
limit 1

-- version --
-- The id under which a model and version are known to this tenant.
select id from embedding_versions
where tenant_id = :tenant_id and model = :model and version = :version

-- versions --
-- Every model that ever made a vector for this tenant, newest first.
select id, model, version, dimensions, created_at
from embedding_versions
where tenant_id = :tenant_id
order by created_at desc, id
