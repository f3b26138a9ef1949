-- is_cluster --
-- Whether this database knows of nodes that hold tenants.
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
-- Where the nodes find the one that is asked.
select nodename as host, nodeport as port from pg_dist_node
where groupid = 0 and noderole = 'primary'

-- join --
-- A node joins; one that has joined stays.
select citus_add_node(:host, :port) where not exists (
  select from pg_dist_node where nodename = :host and nodeport = :port
)

-- coordinate --
-- Nodes know where to find this one.
select citus_set_coordinator_host(:host, :port) where not exists (
  select from pg_dist_node where groupid = 0
)

-- keys --
-- What proofs are checked with, for a node to have the same.
select format(
  'create table if not exists public.tenant_key (inner_key bytea not null, '
  'outer_key bytea not null, unbound boolean not null default true); '
  'revoke all on public.tenant_key from public; delete from public.tenant_key; '
  'insert into public.tenant_key values (decode(%L, ''hex''), decode(%L, ''hex''), true)',
  encode(inner_key, 'hex'), encode(outer_key, 'hex')
) from public.tenant_key

-- let_in --
-- What the coordinator signs in to nodes with as the butler's own login.
with known as (
  delete from pg_dist_authinfo where nodeid = 0 and rolename = :login and authinfo <> :told
)
insert into pg_dist_authinfo (nodeid, rolename, authinfo)
select 0, :login, :told
where to_regrole(:login) is not null and not exists (
  select from pg_dist_authinfo where nodeid = 0 and rolename = :login and authinfo = :told
)
