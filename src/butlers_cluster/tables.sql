-- tables --
-- Every table to copy: its columns, key, paging order, tenant column, and statements to copy it.
select c.relname::text as name, t.attname::text as tenant_column, w.columns,
  coalesce(k.columns, '{}') as ordered, coalesce(k.types, '{}') as ordered_types,
  coalesce(i.key, '{}') as key,
  format('select count(*) from %I', c.relname) as count,
  format('delete from %I', c.relname) as delete,
  format('select %s from %I', w.listed, c.relname) as select,
  format('select jsonb_build_object(%s)::text from %I', k.pairs, c.relname) as select_keys,
  format('select %s from %I as o, %s', w.of_rows, c.relname, i.listed) as select_changed,
  format('delete from %I as o using %s', c.relname, i.listed) as delete_changed
from pg_class c
left join pg_attribute t on t.attrelid = c.oid and not t.attisdropped and (
  (t.attname = 'tenant_id' and c.relrowsecurity)
  or (t.attname = 'tenant' and c.relname = 'memory_tenants')
)
cross join lateral (
  select array_agg(a.attname::text order by a.attname) as columns,
    string_agg(quote_ident(a.attname), ', ' order by a.attname) as listed,
    string_agg(format('o.%I', a.attname), ', ' order by a.attname) as of_rows
  from pg_attribute a
  where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
) w
left join lateral (
  select array_agg(a.attname::text order by n.position) as columns,
    array_agg(format_type(a.atttypid, a.atttypmod) order by n.position) as types,
    string_agg(format('%L, %I', a.attname, a.attname), ', ' order by n.position) as pairs
  from pg_constraint p
  cross join unnest(p.conkey) with ordinality as n (number, position)
  join pg_attribute a on a.attrelid = c.oid and a.attnum = n.number
  where p.conrelid = c.oid and p.contype = 'p'
) k on true
left join lateral (
  select array_agg(a.attname::text order by a.attname <> t.attname, a.attnum) as key,
    format(
      'jsonb_to_recordset($1::jsonb) as k (%s) where o.%I = any($2::text[]) and %s',
      string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', '),
      coalesce(t.attname, ''), string_agg(format('o.%1$I = k.%1$I', a.attname), ' and ')
    ) as listed
  from pg_attribute a
  where a.attrelid = c.oid and t.attname is not null
    and (a.attname = t.attname or a.attname = any(k.columns))
) i on true
where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
  and c.relname not in ('alembic_version', 'tenant_key')
order by c.relname

-- revisions --
-- The revisions that the database was migrated to.
select version_num from alembic_version order by version_num

-- identity_columns --
-- Identity columns: the sequence of each, and a query for the last value in each node's range,
-- whatever its sign.
select pg_get_serial_sequence(c.oid::regclass::text, a.attname) as sequence,
  format('select abs(%1$I) >> 48 as node_range, max(abs(%1$I)) as last from %2$I group by 1', attname, relname) as last_values
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attidentity <> ''
where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
order by 1

-- advance --
-- Let a sequence continue after a value.
select setval(:sequence::text::regclass, :last::bigint)

-- node_of_range --
-- The node that counts in a range.
select nodename as host, nodeport as port from pg_dist_node
where groupid = :node_range and noderole = 'primary'
