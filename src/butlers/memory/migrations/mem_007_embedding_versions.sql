-- embedding_versions --
-- The models a tenant's vectors were made by.
create table embedding_versions (
  id uuid primary key,
  tenant_id text not null,
  model text not null,
  version text not null,
  dimensions integer not null,
  created_at timestamptz not null,
  constraint embedding_versions_unique unique (tenant_id, model, version),
  constraint embedding_versions_tenant_id unique (tenant_id, id),
  constraint embedding_versions_dimensions check (dimensions > 0)
);

-- unrecorded --
-- Vectors from before versions were recorded: the product has only ever had one model.
insert into embedding_versions (id, tenant_id, model, version, dimensions, created_at)
select gen_random_uuid(), tenant_id, 'all-MiniLM-L6-v2', 'unrecorded', 384, now()
from (
  select tenant_id from episodes where embedding is not null
  union select tenant_id from facts where embedding is not null
  union select tenant_id from rules where embedding is not null
) tenants;

-- versioned --
-- What has a vector says which model and version made it.
alter table {table} add column embedding_version_id uuid;
update {table} m set embedding_version_id = v.id from embedding_versions v
where v.tenant_id = m.tenant_id and m.embedding is not null;
alter table {table}
add constraint {table}_embedding_version foreign key (tenant_id, embedding_version_id)
  references embedding_versions (tenant_id, id),
add constraint {table}_embedding_is_versioned
  check ((embedding is null) = (embedding_version_id is null));
