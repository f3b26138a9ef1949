-- databases --
-- Which of these databases exist, and the comment on each.
select datname::text as name, coalesce(shobj_description(oid, 'pg_database'), '') as comment
from pg_database where datname = any(:names::text[])

-- end_connections --
-- End the connections to a database; with a pid, all clients' but that one.
select pg_terminate_backend(pid) from pg_stat_activity
where datname = :database
  and (:pid::integer is null or pid <> :pid and backend_type = 'client backend')
