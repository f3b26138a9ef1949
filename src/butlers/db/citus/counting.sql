-- identities --
-- What counts up, and how far it came in each node's part of the numbers.
select pg_get_serial_sequence(c.oid::regclass::text, a.attname) as sequence,
  format('select %1$I >> 48 as part, max(%1$I) as top from %2$I group by 1', attname, relname) as tops
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attidentity <> ''
where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
order by 1

-- go_on --
-- What is counted next is above this.
select setval(:sequence::text::regclass, :top::bigint)

-- node --
-- The node that counts in a part of the numbers.
select nodename as host, nodeport as port from pg_dist_node
where groupid = :part and noderole = 'primary'
