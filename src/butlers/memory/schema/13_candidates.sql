-- candidates --
-- Candidates in columns: one array for each property.
create type candidates as (
  docs bigint[], kinds text[], ids uuid[], said_at timestamptz[], session_ids uuid[],
  places integer[], authors text[], lengths integer[], similarities float[],
  bare_similarities float[], near_places bigint[], bare_places bigint[], word_places bigint[]
);

-- merge_candidates --
-- Merge the nearest and the best by words, keep what passes the filter, each ranking to a depth.
create or replace function merge_candidates(
  tenant text, version uuid, near halfvec, near_bare halfvec, nearest near_memories,
  bare_docs bigint[], word_docs bigint[], {asked}, depth integer
) returns candidates
language plpgsql stable as $$
    declare
      shown candidates;
    begin
      with legs as materialized (
        select f.doc, min(f.distance) as distance, min(f.near) as near, min(f.bare) as bare,
          min(f.word) as word
        from (
          select n.doc, n.distance, n.place as near, null::bigint as bare, null::bigint as word
          from unnest(nearest.docs, nearest.distances) with ordinality as n (doc, distance, place)
          union all
          select n.doc, null, null, n.place, null
          from unnest(bare_docs) with ordinality as n (doc, place)
          union all
          select n.doc, null, null, null, n.place
          from unnest(word_docs) with ordinality as n (doc, place)
        ) f
        group by f.doc
      ),
      seen as materialized (
        select l.doc, l.distance, m.memory_type, m.memory_id, m.said, m.session_id, m.place,
          m.author, m.length,
          case when l.near is not null then row_number() over (order by l.near) end as near,
          case when l.bare is not null then row_number() over (order by l.bare) end as bare,
          case when l.word is not null then row_number() over (order by l.word) end as word
        from legs l
        cross join lateral (
          select m.memory_type, m.memory_id, coalesce(m.said_at, m.created_at) as said,
            m.session_id, m.place, m.author, m.length
          from index_memories m
          where m.tenant_id = tenant and m.doc = l.doc and passes_filter(m, {given})
          offset 0
        ) m
      ),
      measured as materialized (
        select s.doc, s.memory_type, s.memory_id, s.said, s.session_id, s.place, s.author,
          s.length, 1 - coalesce(s.distance, v.distance) as similarity,
          1 - v.bare_distance as bare_similarity,
          case when s.near <= depth then s.near end as near_place,
          case when s.bare <= depth then s.bare end as bare_place,
          case when s.word <= depth then s.word end as word_place
        from seen s
        left join lateral (
          select v.embedding <=> merge_candidates.near as distance,
            v.embedding <=> near_bare as bare_distance
          from index_vectors v
          where v.tenant_id = tenant and v.version_id = version and v.doc = s.doc
            and (s.distance is null or near_bare is not null)
          offset 0
        ) v on true
        where s.near <= depth or s.bare <= depth or s.word <= depth
        order by near_place, word_place, bare_place
      )
      select array_agg(c.doc), array_agg(c.memory_type), array_agg(c.memory_id),
        array_agg(c.said), array_agg(c.session_id), array_agg(c.place), array_agg(c.author),
        array_agg(c.length), array_agg(c.similarity), array_agg(c.bare_similarity),
        array_agg(c.near_place), array_agg(c.bare_place), array_agg(c.word_place)
      into shown
      from measured c;
      return shown;
    end
    $$;

-- is_short --
-- Whether a ranking has fewer results than wanted although more memories may exist.
create or replace function is_short(asked bigint[], most integer, shown bigint[], depth integer)
returns boolean
language sql immutable parallel safe
return coalesce(cardinality(asked), 0) >= most
  and coalesce(cardinality(array_remove(shown, null)), 0) < depth;

-- lookup_depth --
-- How many memories to look up for a depth, as some will not pass the filter.
create or replace function lookup_depth(depth integer) returns integer
language sql immutable parallel safe
return depth + depth / 4 + 1;

-- prefetch_matching --
-- The best by words of a large tenant, found while the question is still being embedded.
create or replace function prefetch_matching(
  tenant text, asked text, total_known bigint, depth integer, out known text, out matching bigint[]
)
language plpgsql {planned} as $$
    declare
      words query_terms;
    begin
      perform set_config('butlers.tenant', tenant, true);
      words := query_terms(tenant, query_words(asked), total_known);
      known := words::text;
      if words.numbers is not null then
        matching := matching_memories(tenant, words, lookup_depth(depth));
      end if;
    end
    $$;

-- prefetch_nearest --
-- The nearest by meaning of a large tenant, with and without the names in the question.
create or replace function prefetch_nearest(
  tenant text, version uuid, near vector, near_bare vector, depth integer, neighbours integer,
  out docs bigint[], out distances float[], out bare_docs bigint[]
)
language plpgsql {planned} as $$
    declare
      nearest near_memories;
      nearest_bare near_memories;
    begin
      perform set_config('butlers.tenant', tenant, true);
      perform set_config('hnsw.ef_search', neighbours::text, true);
      nearest := nearest_memories(tenant, version, near::halfvec(384), lookup_depth(depth), true);
      -- What only adds to the others needs no such care.
      perform set_config('hnsw.ef_search', (neighbours / 2)::text, true);
      nearest_bare := nearest_memories(
        tenant, version, near_bare::halfvec(384), lookup_depth(depth), true
      );
      docs := nearest.docs;
      distances := nearest.distances;
      bare_docs := nearest_bare.docs;
    end
    $$;

-- find_candidates --
-- The best by meaning, by meaning without names, and by words, each to the same depth, with what
-- ranking needs. What was prefetched is not looked up again. Either among memories of low trust
-- (`low`) or among the others, as if there were only these.
create or replace function find_candidates(
  tenant text, version uuid, asked text, bare text, near vector, near_bare vector, {asked},
  depth integer, names_known bigint, total_known bigint, read_whole bigint, neighbours integer,
  known_ahead text default null, matching_ahead bigint[] default null,
  near_ahead bigint[] default null, distances_ahead float[] default null,
  bare_ahead bigint[] default null, low boolean default false,
  out stale boolean, out words text[], out bare_words text[], out counts bigint[],
  out weights float[], out total bigint, out shown candidates,
  out hit_docs bigint[], out hit_words smallint[], out hit_impacts real[], out has_low boolean
)
language plpgsql {planned} as $$
    declare
      half halfvec := near::halfvec(384);
      half_bare halfvec := near_bare::halfvec(384);
      most integer;
      by_index boolean;
      ahead boolean := known_ahead is not null;
      nearest near_memories := row(near_ahead, distances_ahead);
      nearest_bare near_memories := row(bare_ahead, null);
      known query_terms := known_ahead::query_terms;
      matching bigint[] := matching_ahead;
      short boolean[];
    begin
      perform set_config('butlers.tenant', tenant, true);
      perform set_config('hnsw.ef_search', neighbours::text, true);
      words := query_words(asked);
      bare_words := query_words(bare);
      -- Counted no further than it decides something, and not where far more were known last: a
      -- hundred thousand would take ten milliseconds, and how rare a word is does not hang on the
      -- last few of them.
      total := total_known;
      if total <= 2 * read_whole then
        total := (
          select count(*) from (
            select from index_memories m
            where m.tenant_id = tenant and (m.doc < 0) = low
            limit read_whole + 1
          ) counted
        );
      end if;
      by_index := total > read_whole;
      total := case when by_index then greatest(total, total_known) else total end;
      stale := names_known <> (select count(*) from index_names n where n.tenant_id = tenant)
        or version is distinct from (
          select e.id from embedding_versions e where e.tenant_id = tenant and e.state = 'current'
        );
      has_low := exists(select from index_memories m where m.tenant_id = tenant and m.doc < 0);
      if not ahead then
        known := query_terms(tenant, words, total, low);
      end if;
      counts := known.counts;
      weights := known.weights;
      -- Some may not be shown. Where many may not, more are looked up, by index; where that is not
      -- enough, or reads everything anyway, only those that may be shown are compared.
      foreach most in array array[lookup_depth(depth), 5 * depth] loop
        if not ahead then
          nearest := nearest_memories(tenant, version, half, most, by_index, low);
          nearest_bare := nearest_memories(tenant, version, half_bare, most, by_index, low);
          if known.numbers is not null then
            matching := matching_memories(tenant, known, most, low);
          end if;
        end if;
        ahead := false;
        shown := merge_candidates(
          tenant, version, half, half_bare, nearest, nearest_bare.docs, matching, {given}, depth
        );
        short := array[
          is_short(nearest.docs, most, shown.near_places, depth),
          is_short(nearest_bare.docs, most, shown.bare_places, depth),
          is_short(matching, most, shown.word_places, depth)
        ];
        exit when not by_index or true <> all(short);
      end loop;
      if true = any(short) then
        if short[1] then
          nearest := nearest_filtered(tenant, version, half, {given}, depth, low);
        end if;
        if short[2] then
          nearest_bare := nearest_filtered(tenant, version, half_bare, {given}, depth, low);
        end if;
        if short[3] then
          matching := matching_filtered(tenant, known, {given}, depth, low);
        end if;
        shown := merge_candidates(
          tenant, version, half, half_bare, nearest, nearest_bare.docs, matching, {given}, depth
        );
      end if;
      -- A hit is a word of the question, by its number, in a candidate.
      select array_agg(h.doc), array_agg(h.number), array_agg(h.impact)
      into hit_docs, hit_words, hit_impacts
      from unnest(known.numbers, known.readings, known.factors) as r (number, word, factor)
      cross join lateral (
        select w.doc, r.number, w.impact * r.factor as impact from index_words w
        where w.tenant_id = tenant and w.word = r.word and w.doc = any(shown.docs)
        offset 0
      ) h;
    end
    $$;
