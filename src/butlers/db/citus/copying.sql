-- ledger --
-- How far each table was copied: in the database that is being filled.
create schema if not exists moving;
create table if not exists moving.copied (
  table_name text primary key,
  place jsonb,
  rows bigint not null,
  of_rows bigint not null,
  is_done boolean not null default false
);

-- copied --
-- How far a table was copied.
select place::text as place, rows, of_rows, is_done from moving.copied where table_name = :table

-- note --
-- A table was copied so far.
insert into moving.copied (table_name, place, rows, of_rows, is_done)
values (:table, :place::text::jsonb, :rows, :of_rows, :is_done)
on conflict (table_name) do update set place = excluded.place, rows = excluded.rows,
  of_rows = excluded.of_rows, is_done = excluded.is_done
