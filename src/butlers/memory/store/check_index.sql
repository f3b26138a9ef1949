-- {kind}: episode, fact, rule --
-- {indexed} --
-- Columns of the index that are copies of a memory's.
i.shown, i.scope, i.confidence, i.decay_rate, i.confirmed_at, i.expires_at, i.created_at,
      i.said_at, i.session_id, i.author, i.entity_id, i.confidence_floor, i.valid_from, i.valid_to,
      i.past, i.length

-- {wanted} --
-- The same columns as the memory has them.
m.shown, m.scope, m.confidence, m.decay_rate, m.confirmed_at, m.expires_at, m.created_at,
      m.said_at, m.session_id, m.author, m.entity_id, m.confidence_floor, m.valid_from, m.valid_to,
      m.past, word_count(m.search_vector)

-- check_index_of_{kind}s --
-- Compare the search index of memories, their words and vectors with the memories.
{batch_of_{kind}s},
indexed as materialized (
  select b.id, i.doc, m.search_vector, m.place, m.session_id, m.author,
    i.place as own_place, ({indexed}) is distinct from ({wanted}) as is_other
  from batch b
  join indexed_memories m
    on m.tenant_id = :tenant_id and m.memory_type = '{kind}' and m.memory_id = b.id
  left join index_memories i
    on i.tenant_id = :tenant_id and i.memory_type = '{kind}' and i.memory_id = b.id
),
found as (
  select f.fault, m.id::text as id, f.expected, f.was
  from indexed m
  cross join lateral (
    values
      ('unindexed', m.doc is null, 'a row', 'none'),
      (
        'index_row', m.doc is not null and (
          m.is_other or m.place is distinct from m.own_place
            and (m.place is not null or m.session_id is null)
        ), 'the values of the memory', 'others'
      ),
      (
        'index_words', m.doc is not null and exists (
          select from unnest(m.search_vector) w
          left join index_words i
            on i.tenant_id = :tenant_id and i.word = w.lexeme and i.doc = m.doc
          where (i.impact, i.place) is distinct from (
            bm25_impact(
              coalesce(array_length(w.positions, 1), 1), word_count(m.search_vector)
            ), coalesce(w.positions[1], 0)::smallint
          )
        ), 'every word of the memory', 'other words'
      ),
      (
        'index_vectors', m.doc is not null and exists (
          select from embedding_versions v
          left join index_vectors i
            on i.tenant_id = :tenant_id and i.version_id = v.id and i.doc = m.doc
          left join {kind}s own
            on own.tenant_id = :tenant_id and own.id = m.id and own.embedding_version_id = v.id
          left join {kind}_vectors aside
            on aside.tenant_id = :tenant_id and aside.{kind}_id = m.id
            and aside.embedding_version_id = v.id and own.id is null
          where v.tenant_id = :tenant_id
            and i.embedding is distinct from coalesce(own.embedding, aside.embedding)::halfvec(384)
        ), 'the vectors of the memory', 'others'
      ),
      (
        'index_names', m.author is not null and exists (
          select from name_words(m.author) as word
          where not exists (
            select from index_names n where n.tenant_id = :tenant_id and n.name = word
          )
        ), 'the name of its author', 'none'
      )
  ) f (fault, is_wrong, expected, was)
  where f.is_wrong
)
{findings}, (select coalesce(sum(length(m.search_vector)), 0) from indexed m) as words

-- check_vectors_of_{kind}s --
-- Check that memories have a vector of the model in use, of its length.
{batch_of_{kind}s},
found as (
  select case when m.embedding is null then 'no_vector' when v.id is null then 'unknown_model'
    else 'vector_length' end as fault, b.id::text as id, coalesce(u.model, v.model) as expected,
    coalesce(vector_dims(m.embedding)::text, 'none') as was
  from batch b
  join {kind}s m on m.tenant_id = :tenant_id and m.id = b.id
  left join embedding_versions v on v.tenant_id = :tenant_id and v.id = m.embedding_version_id
  left join embedding_versions u on u.tenant_id = :tenant_id and u.state = 'current'
  where case
    when m.embedding is not null
      then v.id is null or vector_dims(m.embedding) <> v.dimensions
        or vector_norm(m.embedding) = 0
    else u.id is not null and not exists (
      select from {kind}_vectors aside
      where aside.tenant_id = :tenant_id and aside.{kind}_id = m.id
        and aside.embedding_version_id = u.id
    )
  end
)
{report}

-- check_indexed --
-- Find rows of the search index whose memory is gone.
with batch as materialized (
  select i.doc, i.memory_type, i.memory_id, lpad(i.doc::text, 19, '0') collate "C" as key
  from index_memories i
  where i.tenant_id = :tenant_id and i.doc > coalesce(nullif(:after::text, ''), '0')::bigint
  order by i.doc
  limit :limit
),
found as (
  select 'surplus_row' as fault, b.doc::text as id, b.memory_type as expected, 'none' as was
  from batch b
  where case b.memory_type
    when 'episode' then not exists (
      select from episodes m where m.tenant_id = :tenant_id and m.id = b.memory_id
    )
    when 'fact' then not exists (
      select from facts m where m.tenant_id = :tenant_id and m.id = b.memory_id
    )
    else not exists (
      select from rules m where m.tenant_id = :tenant_id and m.id = b.memory_id
    )
  end
)
{report}

-- check_words --
-- Find words of the search index that no memory has.
with batch as materialized (
  select w.word, w.doc, w.word || chr(31) || lpad(w.doc::text, 19, '0') as key
  from index_words w
  where w.tenant_id = :tenant_id and (
    :after::text = '' or (w.word, w.doc) > (
      split_part(:after, chr(31), 1) collate "C",
      coalesce(nullif(split_part(:after, chr(31), 2), ''), '0')::bigint
    )
  )
  order by w.word, w.doc
  limit :limit
),
found as (
  select 'surplus_word' as fault, b.doc || chr(31) || b.word as id, 'a memory' as expected,
    'none' as was
  from batch b
  left join index_memories i on i.tenant_id = :tenant_id and i.doc = b.doc
  where b.word <> all(coalesce(tsvector_to_array(case i.memory_type
    when 'episode' then (
      select m.search_vector from episodes m where m.tenant_id = :tenant_id and m.id = i.memory_id
    )
    when 'fact' then (
      select m.search_vector from facts m where m.tenant_id = :tenant_id and m.id = i.memory_id
    )
    when 'rule' then (
      select m.search_vector from rules m where m.tenant_id = :tenant_id and m.id = i.memory_id
    )
  end), '{}'))
)
{report}

-- check_vectors --
-- Find vectors of the search index that no memory has.
with batch as materialized (
  select v.version_id, v.doc, v.version_id || ' ' || lpad(v.doc::text, 19, '0') as key
  from index_vectors v
  where v.tenant_id = :tenant_id and (
    :after::text = '' or (v.version_id, v.doc) > (
      nullif(split_part(:after, ' ', 1), '')::uuid,
      coalesce(nullif(split_part(:after, ' ', 2), ''), '0')::bigint
    )
  )
  order by v.version_id, v.doc
  limit :limit
),
found as (
  select 'surplus_vector' as fault, b.doc || chr(31) || b.version_id as id, 'a memory' as expected,
    'none' as was
  from batch b
  left join index_memories i on i.tenant_id = :tenant_id and i.doc = b.doc
  left join embedding_versions v on v.tenant_id = :tenant_id and v.id = b.version_id
  where i.doc is null or v.id is null
)
{report}

-- count_words --
-- Count the words in the search index.
select count(*) from index_words where tenant_id = :tenant_id

-- get_ends --
-- The last place in the audit log and in the search index.
select
  (
    select e.sequence from memory_events e
    where e.tenant_id = :tenant_id order by e.sequence desc limit 1
  ) as memory_events,
  (
    select i.doc from index_memories i where i.tenant_id = :tenant_id order by i.doc desc limit 1
  ) as index_memories

-- repair_index_of_{kind}s_1 --
-- Put memories into the search index that are not in it.
select add_to_index(:tenant_id, '{kind}', each.id)
from unnest(:ids::text[]::uuid[]) as each (id)
where not exists (
  select from index_memories i
  where i.tenant_id = :tenant_id and i.memory_type = '{kind}' and i.memory_id = each.id
)
order by each.id

-- repair_index_of_{kind}s_2 --
-- Copy the values of memories to the search index; a position once taken in a session stays.
update index_memories i
set shown = m.shown, scope = m.scope, confidence = m.confidence, decay_rate = m.decay_rate,
  confirmed_at = m.confirmed_at, expires_at = m.expires_at, created_at = m.created_at,
  said_at = m.said_at, session_id = m.session_id, author = m.author, entity_id = m.entity_id,
  confidence_floor = m.confidence_floor, valid_from = m.valid_from, valid_to = m.valid_to,
  past = m.past, length = word_count(m.search_vector),
  place = case when m.session_id is null then m.place else coalesce(m.place, i.place) end
from unnest(:ids::text[]::uuid[]) as each (id)
join indexed_memories m
  on m.tenant_id = :tenant_id and m.memory_type = '{kind}' and m.memory_id = each.id
where i.tenant_id = :tenant_id and i.memory_type = '{kind}' and i.memory_id = each.id

-- repair_index_of_{kind}s_3 --
-- Delete the words of memories from the search index.
delete from index_words w
using index_memories i
where w.tenant_id = :tenant_id and w.doc = i.doc
  and i.tenant_id = :tenant_id and i.memory_type = '{kind}'
  and i.memory_id = any(:ids::text[]::uuid[])

-- repair_index_of_{kind}s_4 --
-- Put the words and vectors of memories into the search index.
select add_words(:tenant_id, i.doc, m.search_vector, i.length),
  sync_vectors(:tenant_id, '{kind}', m.memory_id), add_names(:tenant_id, array[m.author])
from index_memories i
join indexed_memories m
  on m.tenant_id = :tenant_id and m.memory_type = '{kind}' and m.memory_id = i.memory_id
where i.tenant_id = :tenant_id and i.memory_type = '{kind}'
  and i.memory_id = any(:ids::text[]::uuid[])
order by i.doc

-- repair_indexed_1 --
-- Delete rows of the search index whose memory is gone.
delete from index_memories
where tenant_id = :tenant_id and doc = any(:ids::text[]::bigint[])

-- repair_words_1 --
-- Delete words of the search index that no memory has.
delete from index_words w
using unnest(:ids::text[]) as surplus (id)
where w.tenant_id = :tenant_id and w.word = split_part(surplus.id, chr(31), 2)
  and w.doc = split_part(surplus.id, chr(31), 1)::bigint

-- repair_vectors_1 --
-- Delete vectors of the search index that no memory has.
delete from index_vectors v
using unnest(:ids::text[]) as surplus (id)
where v.tenant_id = :tenant_id and v.version_id = split_part(surplus.id, chr(31), 2)::uuid
  and v.doc = split_part(surplus.id, chr(31), 1)::bigint
