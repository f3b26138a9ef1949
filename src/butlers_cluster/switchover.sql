-- databases --
-- Which of these databases exist, and the comment on each.
select datname::text as name, coalesce(shobj_description(oid, 'pg_database'), '') as comment
from pg_database where datname = any(:names::text[])

-- end_others --
-- End every client's connection to a database but one; background workers stay.
select pg_terminate_backend(pid) from pg_stat_activity
where datname = :database and pid <> :pid and backend_type = 'client backend'

-- end_all --
-- End every connection to a database, background workers' as well.
select pg_terminate_backend(pid) from pg_stat_activity where datname = :database
