-- {asked} --
-- What may be found.
types text[], by_scope text, least_confidence float, at timestamptz

-- {given} --
-- The same by name.
types, by_scope, least_confidence, at

-- replaced --
-- What told of candidates row by row.
drop function find_candidates(
  text, uuid, text, text, vector, vector, text[], text, float, timestamptz, integer, bigint, bigint,
  bigint
);
drop function matching_docs(
  text, smallint[], text[], real[], float[], text[], text, float, timestamptz, integer
);
drop function said_words(text, smallint[], text[], real[], float[], bigint[]);
drop function word_counts(text, smallint[], text[], real[]);
drop function question_postings(text, smallint[], text[], real[]);
drop function question_readings(text, text[]);
drop function nearest_docs(
  text, uuid, halfvec, text[], text, float, timestamptz, integer, boolean
);
drop function nearest_indexed(text, uuid, halfvec, text[], text, float, timestamptz, integer);
drop function nearest_exact(text, uuid, halfvec, text[], text, float, timestamptz, integer);

-- near --
-- Memories with how far each is, the nearest first.
create type near_memories as (docs bigint[], distances float[]);

-- nearest_exact --
-- The memories nearest to a vector, every vector of the version read.
create function nearest_exact(tenant text, version uuid, near halfvec, most integer)
returns near_memories
language plpgsql stable set enable_seqscan = on as $$
    declare
      nearest near_memories;
    begin
      select array_agg(n.doc), array_agg(n.distance) into nearest
      from (
        select doc, distance from (
          select v.doc, v.embedding <=> near as distance from index_vectors v
          where v.tenant_id = tenant and v.version_id = version
          offset 0
        ) every
        order by distance, doc desc
        limit most
      ) n;
      return nearest;
    end
    $$;

-- nearest_indexed --
-- The same by the vector index, which may miss some; fewer than asked for mean that it gave up.
create function nearest_indexed(tenant text, version uuid, near halfvec, most integer)
returns near_memories
language plpgsql stable set enable_sort = off as $$
    declare
      nearest near_memories;
    begin
      with found_first as materialized (
        select v.doc, v.embedding <=> near as distance from index_vectors v
        where v.tenant_id = tenant and v.version_id = version
        order by v.embedding <=> near
        limit most
      )
      select array_agg(n.doc order by n.distance, n.doc desc),
        array_agg(n.distance order by n.distance, n.doc desc)
      into nearest
      from found_first n;
      return nearest;
    end
    $$;

-- nearest_memories --
-- The nearest by whichever way suits the tenant's size; exact wherever the index comes up short.
create function nearest_memories(
  tenant text, version uuid, near halfvec, most integer, by_index boolean
) returns near_memories
language plpgsql as $$
    declare
      nearest near_memories;
    begin
      if near is null or version is null then
        return nearest;
      end if;
      -- To go on where the tenant has a small part of the index costs something from the start.
      if by_index then
        perform set_config('hnsw.iterative_scan', 'off', true);
        nearest := nearest_indexed(tenant, version, near, most);
      end if;
      if by_index and coalesce(cardinality(nearest.docs), 0) < most then
        perform set_config('hnsw.iterative_scan', 'relaxed_order', true);
        nearest := nearest_indexed(tenant, version, near, most);
      end if;
      if coalesce(cardinality(nearest.docs), 0) < most then
        nearest := nearest_exact(tenant, version, near, most);
      end if;
      return nearest;
    end
    $$;

-- nearest_shown --
-- The nearest of those that may be shown; for whom most of the nearest may not.
create function nearest_shown(tenant text, version uuid, near halfvec, {asked}, depth integer)
returns near_memories
language plpgsql stable set enable_seqscan = on as $$
    declare
      nearest near_memories;
    begin
      select array_agg(n.doc), array_agg(n.distance) into nearest
      from (
        select doc, distance from (
          select v.doc, v.embedding <=> near as distance
          from index_memories m
          join index_vectors v on v.tenant_id = tenant and v.version_id = version and v.doc = m.doc
          where m.tenant_id = tenant and is_found(m, {given})
          offset 0
        ) shown
        order by distance, doc desc
        limit depth
      ) n;
      return nearest;
    end
    $$;

-- words --
-- How many memories have each word of a question and what it weighs; then which words of the index
-- to read, each for which word of the question, as what part of it, and what it weighs so.
create type known_words as (
  counts bigint[], weights float[],
  numbers smallint[], readings text[], factors real[], told float[]
);

-- known_words --
-- A word that no memory has is stood for by what may be meant by it, which counts for less.
create function known_words(tenant text, spoken text[], total bigint) returns known_words
language plpgsql stable as $$
    declare
      known known_words;
      meant text[];
      missing integer := 0;
    begin
      known.counts := array(
        select (
          select count(*) from index_words w where w.tenant_id = tenant and w.word = s.word
        )
        from unnest(spoken) with ordinality as s (word, number)
        order by s.number
      );
      for number in 1 .. cardinality(spoken) loop
        if known.counts[number] > 0 then
          known.numbers := known.numbers || number::smallint;
          known.readings := known.readings || spoken[number];
          known.factors := known.factors || 1.0::real;
        elsif length(spoken[number]) >= 4 and spoken[number] !~ '[[:digit:][:punct:]]'
          and missing < 8
        then
          missing := missing + 1;
          meant := array(select s from stand_ins(tenant, spoken[number]) as s);
          known.counts[number] := (
            select count(distinct i.doc) from index_words i
            where i.tenant_id = tenant and i.word = any(meant)
          );
          known.numbers := known.numbers
            || array_fill(number::smallint, array[cardinality(meant)]);
          known.readings := known.readings || meant;
          known.factors := known.factors || array_fill(0.6::real, array[cardinality(meant)]);
        end if;
      end loop;
      known.weights := array(
        select ln(1 + (greatest(total - c.memories, 0) + 0.5::float) / (c.memories + 0.5::float))
        from unnest(known.counts) with ordinality as c (memories, number)
        order by c.number
      );
      known.told := array(
        select known.weights[r.number] * r.factor
        from unnest(known.numbers, known.factors) with ordinality as r (number, factor, place)
        order by r.place
      );
      return known;
    end
    $$;

-- word_scores --
-- What words add to the memories that have them; of several that stand in for one, the one that
-- says most.
create function word_scores(tenant text, known known_words)
returns table (doc bigint, score float)
language sql stable
begin atomic
  select w.doc, w.impact * r.told
  from unnest((known).readings, (known).factors, (known).told) as r (word, factor, told)
  join index_words w on w.tenant_id = tenant and w.word = r.word
  where r.factor = 1
  union all
  select w.doc, max(w.impact * r.told)
  from unnest((known).numbers, (known).readings, (known).factors, (known).told)
    as r (number, word, factor, told)
  join index_words w on w.tenant_id = tenant and w.word = r.word
  where r.factor < 1
  group by r.number, w.doc;
end;

-- matching_memories --
-- The best by words: all that share one are added up.
create function matching_memories(tenant text, known known_words, most integer) returns bigint[]
language plpgsql stable as $$
    begin
      return array(
        select w.doc from word_scores(tenant, known) w
        group by w.doc
        order by sum(w.score) desc, w.doc desc
        limit most
      );
    end
    $$;

-- matching_shown --
-- The best of those that may be shown; for whom most of the best may not.
create function matching_shown(tenant text, known known_words, {asked}, depth integer)
returns bigint[]
language plpgsql stable as $$
    begin
      return array(
        select w.doc from word_scores(tenant, known) w
        join index_memories m on m.tenant_id = tenant and m.doc = w.doc
        where is_found(m, {given})
        group by w.doc
        order by sum(w.score) desc, w.doc desc
        limit depth
      );
    end
    $$;
