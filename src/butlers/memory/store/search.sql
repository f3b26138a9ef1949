-- nearest_exact --
-- The memories nearest to a vector, found by reading every vector of the tenant, wherever it lies:
-- OFFSET 0 keeps the planner from taking the index, which finds a small tenant's rows badly.
select memory_type, id, created_at, importance, last_referenced_at, confidence, similarity
from (
  select 'episode' as memory_type, id, created_at, importance, last_referenced_at,
    1.0::float as confidence, 1 - (embedding <=> :embedding) as similarity
  from (
    select id, created_at, importance, last_referenced_at, embedding
    from episodes_embedded_by(:version_id)
    where 'episode' = any(:types::text[]) and tenant_id = :tenant_id
      and (:scope::text is null or butler = :scope)
      and (expires_at is null or expires_at > :now)
    offset 0
  ) visible
  union all
  select 'fact', id, created_at, importance, last_referenced_at, confidence,
    1 - (embedding <=> :embedding)
  from (
    select id, created_at, importance, last_referenced_at, embedding,
      effective_confidence(confidence, decay_rate, last_confirmed_at, :now) as confidence
    from facts_embedded_by(:version_id)
    where 'fact' = any(:types::text[]) and tenant_id = :tenant_id
      and validity = 'active'
      and (:scope::text is null or scope in ('global', :scope))
      and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) >= :min_confidence
    offset 0
  ) visible
  union all
  select 'rule', id, created_at, 5.0, last_referenced_at, confidence,
    1 - (embedding <=> :embedding)
  from (
    select id, created_at, last_referenced_at, embedding,
      effective_confidence(confidence, decay_rate, last_confirmed_at, :now) as confidence
    from rules_embedded_by(:version_id)
    where 'rule' = any(:types::text[]) and tenant_id = :tenant_id
      and metadata -> 'forgotten' is distinct from 'true'
      and (:scope::text is null or scope in ('global', :scope))
      and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) >= :min_confidence
    offset 0
  ) visible
) candidates
order by similarity desc, created_at desc, id
limit :limit

-- nearest_indexed --
-- The same by the vector indexes, for tenants too large to be read whole with no vector aside.
select memory_type, id, created_at, importance, last_referenced_at, confidence, similarity
from (
  (
    select 'episode' as memory_type, id, created_at, importance, last_referenced_at,
      1.0::float as confidence, 1 - (embedding <=> :embedding) as similarity
    from episodes
    where 'episode' = any(:types::text[]) and tenant_id = :tenant_id
      and embedding_version_id = :version_id
      and (:scope::text is null or butler = :scope)
      and (expires_at is null or expires_at > :now)
    order by embedding <=> :embedding
    limit :limit
  )
  union all
  (
    select 'fact', id, created_at, importance, last_referenced_at,
      effective_confidence(confidence, decay_rate, last_confirmed_at, :now),
      1 - (embedding <=> :embedding)
    from facts
    where 'fact' = any(:types::text[]) and tenant_id = :tenant_id
      and embedding_version_id = :version_id and validity = 'active'
      and (:scope::text is null or scope in ('global', :scope))
      and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) >= :min_confidence
    order by embedding <=> :embedding
    limit :limit
  )
  union all
  (
    select 'rule', id, created_at, 5.0, last_referenced_at,
      effective_confidence(confidence, decay_rate, last_confirmed_at, :now),
      1 - (embedding <=> :embedding)
    from rules
    where 'rule' = any(:types::text[]) and tenant_id = :tenant_id
      and embedding_version_id = :version_id
      and metadata -> 'forgotten' is distinct from 'true'
      and (:scope::text is null or scope in ('global', :scope))
      and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) >= :min_confidence
    order by embedding <=> :embedding
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
any_term as materialized (
  select string_agg(term::text, ' | ')::tsquery as query from terms
),
matches as materialized (
  select 'episode' as memory_type, id, created_at, importance, last_referenced_at,
    1.0::float as confidence, search_vector
  from episodes, any_term
  where 'episode' = any(:types::text[]) and tenant_id = :tenant_id
    and search_vector @@ any_term.query
    and (:scope::text is null or butler = :scope)
    and (expires_at is null or expires_at > :now)
  union all
  select 'fact', id, created_at, importance, last_referenced_at,
    effective_confidence(confidence, decay_rate, last_confirmed_at, :now), search_vector
  from facts, any_term
  where 'fact' = any(:types::text[]) and tenant_id = :tenant_id
    and search_vector @@ any_term.query and validity = 'active'
    and (:scope::text is null or scope in ('global', :scope))
    and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) >= :min_confidence
  union all
  select 'rule', id, created_at, 5.0, last_referenced_at,
    effective_confidence(confidence, decay_rate, last_confirmed_at, :now), search_vector
  from rules, any_term
  where 'rule' = any(:types::text[]) and tenant_id = :tenant_id
    and search_vector @@ any_term.query
    and metadata -> 'forgotten' is distinct from 'true'
    and (:scope::text is null or scope in ('global', :scope))
    and effective_confidence(confidence, decay_rate, last_confirmed_at, :now) >= :min_confidence
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
select memory_type, id, created_at, importance, last_referenced_at, confidence,
  sum(weight * ts_rank(search_vector, term, 1)) as rank
from matches, weighted
where search_vector @@ term
group by memory_type, id, created_at, importance, last_referenced_at, confidence
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
