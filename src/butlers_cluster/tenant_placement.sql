-- usage --
-- What each node holds of this database.
select nodename || ':' || nodeport as node, count(*) as shards, sum(shard_size)::bigint as bytes
from citus_shards group by 1 order by 1

-- tenants --
-- Every tenant.
select tenant from memory_tenants order by tenant

-- tenants_by_node --
-- How many of these tenants each node holds.
select n.nodename || ':' || n.nodeport as node, count(*) as tenants
from unnest(:tenants::text[]) as t (tenant)
join pg_dist_placement p
  on p.shardid = get_shard_id_for_distribution_column('memory_events', t.tenant)
join pg_dist_node n on n.groupid = p.groupid and n.noderole = 'primary'
group by 1 order by 1

-- largest --
-- The tenants with the most memories.
select tenant_id as tenant, count(*) as memories from index_memories
group by tenant_id order by 2 desc, 1 limit 10

-- plain_bytes --
-- The size of a database on one server.
select pg_database_size(current_database())

-- shard --
-- The shard and node of a tenant, and whether the shard can hold no other tenant.
select p.shardid as shard, n.nodename as host, n.nodeport as port,
  s.shardminvalue = s.shardmaxvalue as is_alone
from pg_dist_shard s
join pg_dist_placement p on p.shardid = s.shardid
join pg_dist_node n on n.groupid = p.groupid and n.noderole = 'primary'
where s.shardid = get_shard_id_for_distribution_column('memory_events', :tenant::text)

-- isolate --
-- Give a tenant a shard of its own, of every table.
select isolate_tenant_to_new_shard(
  'memory_events', :tenant::text, 'CASCADE', 'block_writes'
)

-- move_shard --
-- Move a shard, and those of other tables beside it, to another node.
select citus_move_shard_placement(
  :shard, :from_host, :from_port, :host, :port, 'block_writes'
)

-- rebalance --
-- Move shards until the nodes hold about as much each.
select rebalance_table_shards(shard_transfer_mode => 'block_writes')
