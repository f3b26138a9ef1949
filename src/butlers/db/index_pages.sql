-- find_indexes --
-- Find the indexes that `amcheck` can check, and whether each table is small enough to be compared.
select format('%I.%I', n.nspname, c.relname) as name, a.amname = 'btree' as is_btree,
  pg_relation_size(i.indrelid) < 67108864 as is_small
from pg_index i
join pg_class c on c.oid = i.indexrelid
join pg_am a on a.oid = c.relam
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'public' and c.relkind = 'i' and i.indisvalid and i.indisready and (
  a.amname = 'btree'
  or a.amname = 'gin' and exists (select from pg_proc where proname = 'gin_index_check')
)
order by 1

-- find_sequences --
-- Find the last number that the identity column of each table gave out.
select c.relname as table,
  coalesce(
    pg_sequence_last_value(pg_get_serial_sequence(c.relname, a.attname)::regclass), 0
  ) as last
from pg_attribute a
join pg_class c on c.oid = a.attrelid
where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.attidentity <> ''
order by 1
