-- create_progress --
-- How far each table was copied: in the database that is being filled.
create schema if not exists moving;
create table if not exists moving.copied (
  table_name text primary key,
  last_key jsonb,
  rows bigint not null,
  of_rows bigint not null,
  is_done boolean not null default false
);

-- progress --
-- How far a table was copied.
select last_key::text as last_key, rows, of_rows, is_done from moving.copied
where table_name = :table

-- save_progress --
-- Note how far a table was copied.
insert into moving.copied (table_name, last_key, rows, of_rows, is_done)
values (:table, :last_key::text::jsonb, :rows, :of_rows, :is_done)
on conflict (table_name) do update set last_key = excluded.last_key, rows = excluded.rows,
  of_rows = excluded.of_rows, is_done = excluded.is_done

-- create_changes --
-- Changes made while rows are copied: the tenant, the table and the key of the row.
create schema if not exists moving;
create table if not exists moving.changes (
  tenant_id text not null,
  id uuid not null default gen_random_uuid(),
  table_name text not null,
  key jsonb not null,
  primary key (tenant_id, id)
);

-- distribute_changes --
-- Note the changes of a tenant on its node, unless that is so already.
select create_distributed_table(
  'moving.changes', 'tenant_id', colocate_with => 'embedding_versions'
) where not exists (
  select from pg_dist_partition where logicalrelid = 'moving.changes'::regclass
)

-- trigger_function --
-- The function that notes changes of a table: the old row, and the new one if its key differs.
select format(
  $definition$
  create or replace function moving.%1$I() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
    begin
      if tg_op <> 'INSERT' then
        insert into moving.changes (tenant_id, table_name, key)
        values (old.%2$I, %1$L, %3$s);
      end if;
      if tg_op = 'INSERT' or (tg_op = 'UPDATE' and %3$s <> %4$s) then
        insert into moving.changes (tenant_id, table_name, key)
        values (new.%2$I, %1$L, %4$s);
      end if;
      return null;
    end
    $$
  $definition$,
  :table::text, :tenant_column::text, :old_key::text, :new_key::text
)

-- captured_tables --
-- The tables whose changes are noted.
select tgrelid::regclass::text as name from pg_trigger where tgname = 'moving_note'
order by 1

-- count_changes --
-- How many changes of each tenant are not applied yet.
select tenant_id, count(*) as changes from moving.changes group by tenant_id order by tenant_id

-- changes --
-- The changes of tenants that are not applied yet.
select tenant_id, id, table_name, key::text as key from moving.changes
where tenant_id = any(:tenants::text[])

-- delete_changes --
-- Delete changes that were applied.
delete from moving.changes where tenant_id = any(:tenants::text[]) and id = any(:ids::uuid[])
