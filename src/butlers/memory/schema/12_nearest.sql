-- near_memories --
-- Memories and their distances, the nearest first.
create type near_memories as (docs bigint[], distances float[]);

-- nearest_exact --
-- The memories nearest to a vector, comparing every vector of the version.
create or replace function nearest_exact(
  tenant text, version uuid, near halfvec, most integer, low boolean default false
) returns near_memories
language plpgsql stable set enable_seqscan = off as $$
    declare
      nearest near_memories;
    begin
      select array_agg(n.doc), array_agg(n.distance) into nearest
      from (
        select doc, distance from (
          select v.doc, v.embedding <=> near as distance from index_vectors v
          where v.tenant_id = tenant and v.version_id = version and (v.doc < 0) = low
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
create or replace function nearest_indexed(
  tenant text, version uuid, near halfvec, most integer, low boolean default false
) returns near_memories
language plpgsql stable set enable_sort = off as $$
    declare
      nearest near_memories;
    begin
      with found_first as materialized (
        select v.doc, v.embedding <=> near as distance from index_vectors v
        where v.tenant_id = tenant and v.version_id = version and (v.doc < 0) = low
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
-- The nearest by index or exactly, by the size of the tenant; exactly where the index gave up.
create or replace function nearest_memories(
  tenant text, version uuid, near halfvec, most integer, by_index boolean,
  low boolean default false
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
        nearest := nearest_indexed(tenant, version, near, most, low);
      end if;
      if by_index and coalesce(cardinality(nearest.docs), 0) < most then
        perform set_config('hnsw.iterative_scan', 'relaxed_order', true);
        nearest := nearest_indexed(tenant, version, near, most, low);
      end if;
      if coalesce(cardinality(nearest.docs), 0) < most then
        nearest := nearest_exact(tenant, version, near, most, low);
      end if;
      return nearest;
    end
    $$;

-- nearest_filtered --
-- The nearest memories that pass the filter; for filters that most of the nearest do not pass.
create or replace function nearest_filtered(
  tenant text, version uuid, near halfvec, {asked}, depth integer, low boolean default false
) returns near_memories
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
          where m.tenant_id = tenant and (m.doc < 0) = low and passes_filter(m, {given})
          offset 0
        ) shown
        order by distance, doc desc
        limit depth
      ) n;
      return nearest;
    end
    $$;

-- matching_filtered --
-- The best by words that pass the filter; for filters that most of the best do not pass.
create or replace function matching_filtered(
  tenant text, known query_terms, {asked}, depth integer, low boolean default false
) returns bigint[]
language plpgsql stable as $$
    begin
      return array(
        select w.doc from word_scores(tenant, known, low) w
        join index_memories m on m.tenant_id = tenant and m.doc = w.doc
        where passes_filter(m, {given})
        group by w.doc
        order by sum(w.score) desc, w.doc desc
        limit depth
      );
    end
    $$;
