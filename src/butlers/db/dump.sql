-- find_tables --
-- Every table of ours with the statement that counts its rows; those of extensions are not.
select n.nspname || '.' || c.relname as name,
       format('select count(*) from only %I.%I', n.nspname, c.relname) as counting
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r'
  and n.nspname !~ '^(pg_|information_schema$)'
  and not exists (
      select 1 from pg_depend d
      where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'
  )
order by name

-- find_databases --
-- The databases of butlers on a server.
select datname from pg_database where datname like 'butler\_%' order by datname
