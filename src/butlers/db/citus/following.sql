-- book --
-- What changes while rows are being carried is noted here: whose it is, in which table, which row.
create schema if not exists moving;
create table if not exists moving.changes (
  tenant_id text not null,
  id uuid not null default gen_random_uuid(),
  table_name text not null,
  key jsonb not null,
  primary key (tenant_id, id)
);

-- noting --
-- How changes of a table are noted: the row that was, and the one that is if its key is another.
select format(
  $told$
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
  $told$,
  :table::text, :tenant_column::text, :old_key::text, :new_key::text
)

-- followed --
-- The tables whose changes are noted.
select tgrelid::regclass::text as name from pg_trigger where tgname = 'moving_note'
order by 1

-- waiting --
-- How many changes wait to be carried, by tenant.
select tenant_id, count(*) as changes from moving.changes group by tenant_id order by tenant_id

-- changes --
-- The changes of tenants that wait.
select tenant_id, id, table_name, key::text as key from moving.changes
where tenant_id = any(:tenants::text[])

-- carried --
-- Changes that were carried need not be again.
delete from moving.changes where tenant_id = any(:tenants::text[]) and id = any(:ids::uuid[])
