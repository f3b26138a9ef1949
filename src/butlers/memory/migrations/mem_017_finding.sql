-- nearest --
-- For tenants too large to be read whole; built once the vectors are there, which is quicker.
create index index_vectors_nearest on index_vectors using hnsw (embedding halfvec_cosine_ops)
with (m = 24, ef_construction = 128);

-- replaced --
-- What stood for this while searches read the wide rows.
drop function visible_memories_embedded_by(uuid, text[], text, text, float, timestamptz);
drop function visible_memories(text[], text, text, float, timestamptz);
drop function visible_episodes(text, text, float, timestamptz);
drop function visible_facts(text, text, float, timestamptz);
drop function visible_rules(text, text, float, timestamptz);

-- is_found --
-- Whether a search may show a memory of the index: of the kinds wanted, shown at all, not past its
-- time, seen from where it is asked (an episode by its own butler alone) and sure enough.
create function is_found(
  m index_memories, types text[], by_scope text, least_confidence float, at timestamptz
) returns boolean
language sql immutable parallel safe
return (m).shown and (m).memory_type = any(types)
  and episode_state((m).expires_at, at) <> 'expired'
  and case
    when (m).memory_type = 'episode' then by_scope is null or (m).scope = by_scope
    else is_seen((m).scope, by_scope)
  end
  and effective_confidence((m).confidence, (m).decay_rate, (m).confirmed_at, at)
    >= least_confidence;

-- question_words --
-- The different words of a question in their order. A pasted document asks for its first ones.
create function question_words(asked text) returns text[]
language sql immutable parallel safe
return (
  select coalesce(array_agg(word order by place), '{}')
  from (
    select (tsvector_to_array(term::tsvector))[1] as word, min(place) as place
    from unnest(string_to_array(plainto_tsquery('english', asked)::text, ' & '))
      with ordinality as terms (term, place)
    where term <> ''
    group by 1
    order by 2
    limit 64
  ) different
);

-- beginning_with --
-- Words of the tenant's memories with one beginning, each found by one step through the index.
create function beginning_with(tenant text, beginning text, most integer) returns setof text
language sql stable
begin atomic
  with recursive known (word, number) as (
    (
      select w.word, 1 from index_words w
      where w.tenant_id = tenant and w.word >= beginning
      order by w.word
      limit 1
    )
    union all
    select further.word, known.number + 1
    from known
    cross join lateral (
      select w.word from index_words w
      where w.tenant_id = tenant and w.word > known.word
      order by w.word
      limit 1
    ) further
    where known.number < most and starts_with(known.word, beginning)
  )
  select word from known where starts_with(word, beginning);
end;

-- misspelt --
-- Every word that differs from this one by a letter: left out, too many, another, or two swapped.
-- The first two letters are right, as nearly always.
create function misspelt(word text) returns text[]
language sql immutable parallel safe
return (
  select array_agg(distinct other)
  from generate_series(2, length(word)) as place
  cross join unnest(string_to_array(
    case when word ~ '[а-я]' then 'абвгдежзийклмнопрстуфхцчшщъыьэюя'
      else 'abcdefghijklmnopqrstuvwxyz' end, null
  )) as letter
  cross join lateral (values
    (left(word, place) || substr(word, place + 2)),
    (left(word, place) || letter || substr(word, place + 1)),
    (left(word, place) || letter || substr(word, place + 2)),
    (left(word, place) || substr(word, place + 2, 1) || substr(word, place + 1, 1)
      || substr(word, place + 3))
  ) as edits (other)
);

-- stand_ins --
-- Words of the tenant's memories that may be meant by one that is in none of them: what begins
-- with it, what it misspells by a letter, what begins as it does and ends otherwise.
create function stand_ins(tenant text, asked text) returns setof text
language sql stable
begin atomic
  select word
  from (
    select word, case when starts_with(word, asked) then 1 else 3 end as kind
    from beginning_with(tenant, left(asked, greatest(4, length(asked) - 3)), 200) as word
    where length(word) <= 2 * length(asked) + 4
    union all
    select distinct w.word, 2
    from unnest(misspelt(asked)) as other
    join index_words w on w.tenant_id = tenant and w.word = other
    where length(asked) >= 4
  ) likely
  group by word
  order by min(kind), abs(length(word) - length(asked)), word
  limit 5;
end;

-- {asked} --
-- What may be found.
types text[], by_scope text, least_confidence float, at timestamptz

-- {given} --
-- The same by name.
types, by_scope, least_confidence, at

-- {seen} --
-- The memory of a number, if it may be found; looked up one by one, as few as there are.
cross join lateral (
        select from index_memories m
        where m.tenant_id = tenant and m.doc = n.doc and is_found(m, {given})
        offset 0
      ) seen

-- nearest_exact --
-- The memories nearest to a vector, every vector of the version read. Twice as many as asked for
-- are looked up; only where most of those may not be shown, all are.
create function nearest_exact(
  tenant text, version uuid, near halfvec, {asked}, depth integer
) returns bigint[]
language plpgsql stable as $$
    declare
      docs bigint[];
      compared bigint;
    begin
      with nearest as materialized (
        select doc, distance from (
          select v.doc, v.embedding <=> near as distance from index_vectors v
          where v.tenant_id = tenant and v.version_id = version
          offset 0
        ) every
        order by distance, doc desc
        limit 2 * depth
      )
      select (array_agg(n.doc order by n.distance, n.doc desc))[1:depth],
        (select count(*) from nearest)
      into docs, compared
      from nearest n
      {seen};
      if coalesce(cardinality(docs), 0) < depth and compared = 2 * depth then
        select array_agg(doc order by distance, doc desc) into docs
        from (
          select doc, distance from (
            select v.doc, v.embedding <=> near as distance
            from index_memories m
            join index_vectors v on v.tenant_id = tenant and v.version_id = version
              and v.doc = m.doc
            where m.tenant_id = tenant and is_found(m, {given})
            offset 0
          ) visible
          order by distance, doc desc
          limit depth
        ) nearest;
      end if;
      return docs;
    end
    $$;

-- nearest_indexed --
-- The same by the vector index, which may miss some; fewer than asked for mean that it did.
create function nearest_indexed(
  tenant text, version uuid, near halfvec, {asked}, depth integer
) returns bigint[]
language sql stable
begin atomic
  with nearest as materialized (
    select v.doc, v.embedding <=> near as distance from index_vectors v
    where v.tenant_id = tenant and v.version_id = version
    order by v.embedding <=> near
    limit 2 * depth
  )
  select (array_agg(n.doc order by n.distance, n.doc desc))[1:depth]
  from nearest n
  {seen};
end;

-- nearest_docs --
-- The nearest by whichever way suits the tenant's size; exact wherever the index comes up short.
create function nearest_docs(
  tenant text, version uuid, near halfvec, {asked}, depth integer, by_index boolean
) returns bigint[]
language plpgsql stable as $$
    declare
      docs bigint[];
    begin
      if near is null or version is null then
        return '{}';
      end if;
      if by_index then
        docs := nearest_indexed(tenant, version, near, {given}, depth);
      end if;
      if coalesce(cardinality(docs), 0) < depth then
        docs := nearest_exact(tenant, version, near, {given}, depth);
      end if;
      return coalesce(docs, '{}');
    end
    $$;
