-- {asked} --
-- What may be found.
types text[], by_scope text, least_confidence float, at timestamptz, as_of timestamptz,
known_at timestamptz

-- {given} --
-- The same by name.
types, by_scope, least_confidence, at, as_of, known_at

-- {planned} --
-- However few rows there are when a plan is made, it must serve when there are many; and it is
-- made once, not for every question.
set enable_seqscan = off set plan_cache_mode = force_generic_plan

-- replaced --
-- What found nothing ahead.
drop function find_candidates(
  text, uuid, text, text, vector, vector, text[], text, float, timestamptz, timestamptz,
  timestamptz, integer, bigint, bigint, bigint, integer
);

-- looked_at --
-- How many are looked up for so many that are wanted: some may not be shown.
create function looked_at(depth integer) returns integer
language sql immutable parallel safe
return depth + depth / 4 + 1;

-- match_ahead --
-- The best by words of a large tenant, and what is known of the words.
create function match_ahead(
  tenant text, asked text, total_known bigint, depth integer, out known text, out matching bigint[]
)
language plpgsql {planned} as $$
    declare
      words known_words;
    begin
      perform set_config('butlers.tenant', tenant, true);
      words := known_words(tenant, question_words(asked), total_known);
      known := words::text;
      if words.numbers is not null then
        matching := matching_memories(tenant, words, looked_at(depth));
      end if;
    end
    $$;

-- near_ahead --
-- The best by meaning of a large tenant, with and without the names in the question.
create function near_ahead(
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
      nearest := nearest_memories(tenant, version, near::halfvec(384), looked_at(depth), true);
      -- What only adds to the others needs no such care.
      perform set_config('hnsw.ef_search', (neighbours / 2)::text, true);
      nearest_bare := nearest_memories(
        tenant, version, near_bare::halfvec(384), looked_at(depth), true
      );
      docs := nearest.docs;
      distances := nearest.distances;
      bare_docs := nearest_bare.docs;
    end
    $$;

-- find_candidates --
-- The best by meaning, by meaning without the names in the question, and by words, each to the same
-- depth, with what there is to rank them by; and what is known of the question. None is found twice.
create function find_candidates(
  tenant text, version uuid, asked text, bare text, near vector, near_bare vector, {asked},
  depth integer, names_known bigint, total_known bigint, read_whole bigint, neighbours integer,
  known_ahead text default null, matching_ahead bigint[] default null,
  near_ahead bigint[] default null, distances_ahead float[] default null,
  bare_ahead bigint[] default null,
  out stale boolean, out words text[], out bare_words text[], out counts bigint[],
  out weights float[], out total bigint, out shown candidates,
  out hit_docs bigint[], out hit_words smallint[], out hit_impacts real[]
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
      known known_words := known_ahead::known_words;
      matching bigint[] := matching_ahead;
      short boolean[];
    begin
      perform set_config('butlers.tenant', tenant, true);
      perform set_config('hnsw.ef_search', neighbours::text, true);
      words := question_words(asked);
      bare_words := question_words(bare);
      -- Counted no further than it decides something, and not where far more were known last: a
      -- hundred thousand would take ten milliseconds, and how rare a word is does not hang on the
      -- last few of them.
      total := total_known;
      if total <= 2 * read_whole then
        total := (
          select count(*) from (
            select from index_memories m where m.tenant_id = tenant limit read_whole + 1
          ) counted
        );
      end if;
      by_index := total > read_whole;
      total := case when by_index then greatest(total, total_known) else total end;
      stale := names_known <> (select count(*) from index_names n where n.tenant_id = tenant)
        or version is distinct from (
          select e.id from embedding_versions e where e.tenant_id = tenant and e.state = 'current'
        );
      if not ahead then
        known := known_words(tenant, words, total);
      end if;
      counts := known.counts;
      weights := known.weights;
      -- Some may not be shown. Where many may not, more are looked up, by index; where that is not
      -- enough, or reads everything anyway, only those that may be shown are compared.
      foreach most in array array[looked_at(depth), 5 * depth] loop
        if not ahead then
          nearest := nearest_memories(tenant, version, half, most, by_index);
          nearest_bare := nearest_memories(tenant, version, half_bare, most, by_index);
          if known.numbers is not null then
            matching := matching_memories(tenant, known, most);
          end if;
        end if;
        ahead := false;
        shown := shown_candidates(
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
          nearest := nearest_shown(tenant, version, half, {given}, depth);
        end if;
        if short[2] then
          nearest_bare := nearest_shown(tenant, version, half_bare, {given}, depth);
        end if;
        if short[3] then
          matching := matching_shown(tenant, known, {given}, depth);
        end if;
        shown := shown_candidates(
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
