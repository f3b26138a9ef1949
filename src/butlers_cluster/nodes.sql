-- is_cluster --
-- Whether this database has a list of nodes.
select exists (
  select from pg_catalog.pg_extension where extname = 'citus'
) and exists (
  select from pg_catalog.pg_class where relname = 'pg_dist_node' and relkind = 'r'
)

-- nodes --
-- The nodes that hold tenants.
select nodename as host, nodeport as port from pg_dist_node
where isactive and noderole = 'primary' and groupid <> 0
order by nodeid

-- own_address --
-- The address by which nodes reach the coordinator.
select nodename as host, nodeport as port from pg_dist_node
where groupid = 0 and noderole = 'primary'

-- add_node --
-- Add a node that is not listed yet.
select citus_add_node(:host, :port) where not exists (
  select from pg_dist_node where nodename = :host and nodeport = :port
)

-- set_coordinator --
-- Tell nodes the address of the coordinator, once.
select citus_set_coordinator_host(:host, :port) where not exists (
  select from pg_dist_node where groupid = 0
)

-- key_statements --
-- The statements that give a node this database's keys.
select format(
  'create table if not exists public.tenant_key (inner_key bytea not null, '
  'outer_key bytea not null, unbound boolean not null default true); '
  'revoke all on public.tenant_key from public; delete from public.tenant_key; '
  'insert into public.tenant_key values (decode(%L, ''hex''), decode(%L, ''hex''), true)',
  encode(inner_key, 'hex'), encode(outer_key, 'hex')
) from public.tenant_key

-- set_credentials --
-- Set what the coordinator signs in to nodes with as the butler's own login.
with outdated as (
  delete from pg_dist_authinfo
  where nodeid = 0 and rolename = :login and authinfo <> :credentials
)
insert into pg_dist_authinfo (nodeid, rolename, authinfo)
select 0, :login, :credentials
where to_regrole(:login) is not null and not exists (
  select from pg_dist_authinfo where nodeid = 0 and rolename = :login and authinfo = :credentials
)
