-- register_version --
-- Record a model for this tenant: the first is in use, any further one lies aside; a known one
-- keeps its id.
with added as (
  insert into embedding_versions
    (id, tenant_id, model, version, dimensions, directory, state, created_at)
  select :id, :tenant_id, :model, :version, :dimensions, :directory,
    case when count(*) > 0 then 'aside' else 'current' end, :now
  from embedding_versions
  where tenant_id = :tenant_id and state = 'current'
  on conflict do nothing
  returning id
)
select id from added
union all
select id from embedding_versions
where tenant_id = :tenant_id and model = :model and version = :version
order by id
limit 1

-- find_versions --
-- Every model known to this tenant, newest first.
select id, model, version, dimensions, directory, state, created_at
from embedding_versions
where tenant_id = :tenant_id
order by created_at desc, id

-- hold --
-- Every model known to this tenant, held: nobody stores a vector until the transaction ends.
select id from embedding_versions
where tenant_id = :tenant_id
order by id
for update

-- join --
-- The state of a model, which stays so until the transaction ends.
select state from embedding_versions
where tenant_id = :tenant_id and id = :id
for key share

-- leave --
-- Models in one state go to another, to make room for the next in it.
update embedding_versions set state = :state
where tenant_id = :tenant_id and state = :was

-- enter --
-- One model is in a state from now on.
update embedding_versions set state = :state
where tenant_id = :tenant_id and id = :id

-- locate --
-- A model that was moved is found where it is now.
update embedding_versions set directory = :directory
where tenant_id = :tenant_id and id = :id and directory <> :directory
