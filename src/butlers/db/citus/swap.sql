-- known --
-- Which of these databases there are, whether they let anybody in, and what is said of them.
select datname::text as name, datallowconn as is_open,
  coalesce(shobj_description(oid, 'pg_database'), '') as said
from pg_database where datname = any(:names::text[])

-- end_others --
-- Whoever is in a database is sent away, but for one; those who work for all its clients are left.
select pg_terminate_backend(pid) from pg_stat_activity
where datname = :database and pid <> :but and backend_type = 'client backend'

-- end_all --
-- Nobody is in a database, not even those who work for all its clients.
select pg_terminate_backend(pid) from pg_stat_activity where datname = :database
