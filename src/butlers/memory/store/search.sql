-- {found} --
-- What every search says of a memory it may return.
memory_type, id, created_at, importance, last_referenced_at, confidence

-- nearest_exact --
-- The memories nearest to a vector, found by reading every vector of the tenant, wherever it lies:
-- OFFSET 0 keeps the planner from taking the index, which finds a small tenant's rows badly.
select {found}, 1 - (embedding <=> :embedding) as similarity
from (
  select {found}, embedding
  from visible_memories_embedded_by(
    :version_id, :types, :tenant_id, :scope, :min_confidence, :now
  )
  offset 0
) visible
order by similarity desc, created_at desc, id
limit :limit

-- nearest_indexed --
-- The same by the vector indexes, for tenants too large to be read whole with no vector aside.
select {found}, 1 - distance as similarity
from (
  (
    select {found}, embedding <=> :embedding as distance
    from visible_episodes(:tenant_id, :scope, :min_confidence, :now)
    where 'episode' = any(:types::text[]) and embedding_version_id = :version_id
    order by distance
    limit :limit
  )
  union all
  (
    select {found}, embedding <=> :embedding as distance
    from visible_facts(:tenant_id, :scope, :min_confidence, :now)
    where 'fact' = any(:types::text[]) and embedding_version_id = :version_id
    order by distance
    limit :limit
  )
  union all
  (
    select {found}, embedding <=> :embedding as distance
    from visible_rules(:tenant_id, :scope, :min_confidence, :now)
    where 'rule' = any(:types::text[]) and embedding_version_id = :version_id
    order by distance
    limit :limit
  )
) candidates
order by similarity desc, created_at desc, id
limit :limit

-- matching --
-- The memories that share words with a query. Terms are joined with OR; each counts by how rare
-- it is among the rows searched, so that fuller and rarer matches come first.
with terms as materialized (
  select term::tsquery as term
  from unnest(string_to_array(plainto_tsquery('english', :query)::text, ' & '))
    with ordinality as asked (term, place)
  where term <> ''
  group by term
  order by min(place)
  limit :max_terms
),
matches as materialized (
  select {found}, search_vector
  from visible_memories(:types, :tenant_id, :scope, :min_confidence, :now)
  where search_vector @@ (select string_agg(term::text, ' | ')::tsquery from terms)
),
counted as materialized (
  select term, (select count(*) from matches where search_vector @@ term)::float as found
  from terms
),
corpus as (
  select greatest(count(*), :corpus_size::bigint)::float as total from matches
),
weighted as materialized (
  select term, ln(1 + (total - found + 0.5) / (found + 0.5)) as weight from counted, corpus
)
select {found}, sum(weight * ts_rank(search_vector, term, 1)) as rank
from matches, weighted
where search_vector @@ term
group by {found}
order by rank desc, created_at desc, id
limit :limit

-- corpus_size --
-- How many rows a search would read, counted no further than asked.
select
  (select count(*) from (
    select from episodes
    where 'episode' = any(:types::text[]) and tenant_id = :tenant_id limit :most
  ) counted)
  + (select count(*) from (
    select from facts
    where 'fact' = any(:types::text[]) and tenant_id = :tenant_id and validity = 'active'
    limit :most
  ) counted)
  + (select count(*) from (
    select from rules where 'rule' = any(:types::text[]) and tenant_id = :tenant_id limit :most
  ) counted)
