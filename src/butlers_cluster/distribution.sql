-- comment --
-- The comment on a database, where the version that distributed it is noted.
select shobj_description(oid, 'pg_database') from pg_database where datname = :database

-- tenant_tables --
-- Every table whose rows belong to tenants, and whether it is distributed already.
select c.relname::text as name, a.attname::text as tenant_column,
  exists (select from pg_dist_partition p where p.logicalrelid = c.oid) as is_distributed
from pg_class c
join pg_attribute a on a.attrelid = c.oid and not a.attisdropped and (
  (a.attname = 'tenant_id' and c.relrowsecurity)
  or (a.attname = 'tenant' and c.relname = 'memory_tenants')
)
where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
order by c.relname

-- functions --
-- Every function of ours: its definition, body, result, and which tables of tenants it uses.
select p.oid::regprocedure::text as name, pg_get_functiondef(p.oid) as definition,
  pg_get_function_sqlbody(p.oid) as body,
  coalesce(pg_get_function_sqlbody(p.oid) ~ (
    '(FROM|JOIN|INTO|UPDATE)[ (]+(public\.)?(' || array_to_string(:tables::text[], '|') || ')[ ;\n]'
  ), false) as reads_tables,
  case
    when p.prorettype = 'void'::regtype then '{}'
    when p.proretset then 'return query {}'
    else 'return ({})'
  end as result,
  array(
    select t.typname::text from unnest(p.proargtypes) as a (type)
    join pg_type t on t.oid = a.type and t.typname = any(:tables)
  ) as row_types
from pg_proc p
where p.pronamespace = 'public'::regnamespace and p.prokind = 'f' and not exists (
  select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid
    and d.deptype = 'e'
)
order by p.oid

-- tenant_functions --
-- Functions that statements call with a tenant: they run on its node.
select p.oid::regprocedure::text as name
from pg_proc p
where p.pronamespace = 'public'::regnamespace and 'tenant' = any(p.proargnames)
  and p.proname = any(array[
    'find_candidates', 'prefetch_matching', 'prefetch_nearest', 'load_memories', 'tenant_profile',
    'append_events', 'import_rows', 'import_events', 'erase_rows', 'erase_names',
    'erase_event_texts'
  ])
order by p.oid

-- keys --
-- Primary keys without the tenant, and their columns.
select c.conrelid::regclass::text as name, c.conname::text as key,
  array(
    select a.attname::text from unnest(c.conkey) with ordinality as k (number, position)
    join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.number
    order by k.position
  ) as columns
from pg_constraint c
join pg_attribute t on t.attrelid = c.conrelid and t.attname = 'tenant_id'
where c.contype = 'p' and c.conrelid::regclass::text = any(:tables) and t.attnum <> all(c.conkey)

-- duplicate_keys --
-- Unique constraints over the tenant and the columns of the primary key.
select c.conname::text as name
from pg_constraint c
where c.contype = 'u' and c.conrelid = to_regclass(:table) and array(
    select a.attname::text from unnest(c.conkey) with ordinality as k (number, position)
    join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.number
    order by k.position
  ) = 'tenant_id'::text || :columns::text[]

-- references --
-- Foreign keys between the tables: definition, and the column that `on delete set null` empties.
select c.conrelid::regclass::text as name, c.conname::text as reference,
  c.confrelid::regclass::text as target, pg_get_constraintdef(c.oid) as definition,
  t.attnum = any(c.conkey) as holds_tenant,
  (
    select a.attname::text from pg_attribute a
    where a.attrelid = c.conrelid and c.confdeltype = 'n' and a.attnum = any(c.confdelsetcols)
  ) as null_column
from pg_constraint c
join pg_attribute t on t.attrelid = c.conrelid and t.attname = 'tenant_id'
where c.contype = 'f' and c.conrelid::regclass::text = any(:tables)
order by c.oid

-- policies --
-- The policies of tables.
select polrelid::regclass::text as name, polname::text as policy from pg_policy
where polrelid::regclass::text = any(:tables)

-- leave_references --
-- Empty the columns that refer to a deleted row; arguments are pairs of table and column.
create or replace function leave_references() returns trigger
language plpgsql set search_path = public, pg_temp as $$
    begin
      for pair in 0 .. tg_nargs / 2 - 1 loop
        execute format(
          'update %1$I set %2$I = null where tenant_id = $1 and %2$I = $2',
          tg_argv[2 * pair], tg_argv[2 * pair + 1]
        ) using old.tenant_id, old.id;
      end loop;
      return null;
    end
    $$;

-- number_event --
-- Number events by the clock, so that they stay in order when their tenant moves to a node.
create or replace function number_event() returns trigger language plpgsql as $$
    begin
      new.sequence := (extract(epoch from clock_timestamp()) * 1000000)::bigint * 1000
        + new.sequence % 1000;
      return new;
    end
    $$;

-- number_events --
-- Number every event when it is stored.
create trigger memory_events_numbered before insert on memory_events
for each row execute function number_event()

-- act_for --
-- Let the transaction act for a tenant on every node that its statements run on.
create or replace function act_for(tenant text, actor text, proof text) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
    begin
      execute format('set local butlers.tenant = %L', tenant);
      execute format('set local butlers.actor = %L', actor);
      execute format('set local butlers.proof = %L', proof);
      if public.proven_tenant() is distinct from tenant then
        raise exception 'it is not proven who is acted for'
        using errcode = 'insufficient_privilege';
      end if;
      return tenant;
    end
    $$;

-- function_grants --
-- Statements that grant what the roles may call, for functions that are not everybody's.
select format('revoke all on function %s from public', p.oid::regprocedure) as statement
from pg_proc p
where p.pronamespace = 'public'::regnamespace and p.proacl is not null and not exists (
  select from aclexplode(p.proacl) a where a.grantee = 0
)
union all
select format('grant execute on function %s to %I', p.oid::regprocedure, r.rolname)
from pg_proc p
cross join aclexplode(p.proacl) a
join pg_roles r on r.oid = a.grantee
where p.pronamespace = 'public'::regnamespace and p.proowner <> a.grantee
  and a.privilege_type = 'EXECUTE'

-- view_grants --
-- Statements that grant who may read which view.
select format('grant select on %s to %s', table_name, grantee) as statement
from information_schema.table_privileges
join pg_views on schemaname = table_schema and viewname = table_name
where table_schema = 'public' and privilege_type = 'SELECT' and grantee <> viewowner

-- settings --
-- Settings: proofs hold on any connection, no replicas are read, dumps leave out the extension.
do $$
    declare
      setting text;
    begin
      foreach setting in array array[
        'citus.propagate_set_commands = local', 'plan_cache_mode = force_custom_plan',
        'citus.allow_nested_distributed_execution = on', 'butlers.unbound = on',
        'butlers.read_replicas = off', 'butlers.dump_without = citus'
      ] loop
        execute format('alter database %I set %s', current_database(), setting);
      end loop;
    end
    $$;
