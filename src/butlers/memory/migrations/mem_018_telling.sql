-- {asked} --
-- What may be found.
types text[], by_scope text, least_confidence float, at timestamptz

-- {given} --
-- The same by name.
types, by_scope, least_confidence, at

-- question_readings --
-- What to look for in place of each word of a question: the word, or where no memory of the tenant
-- has it, what may be meant by it, which counts for less.
create function question_readings(tenant text, spoken text[])
returns table (number smallint, word text, factor real)
language plpgsql stable set enable_seqscan = off as $$
    declare
      missing integer := 0;
    begin
      for asked in 1 .. cardinality(spoken) loop
        number := asked;
        word := spoken[asked];
        factor := 1.0;
        if exists (
          select from index_words w where w.tenant_id = tenant and w.word = spoken[asked]
        ) then
          return next;
        elsif length(word) >= 4 and word !~ '[[:digit:][:punct:]]' and missing < 8 then
          missing := missing + 1;
          factor := 0.6;
          for word in select s from stand_ins(tenant, spoken[asked]) as s loop
            return next;
          end loop;
        end if;
      end loop;
    end
    $$;

-- question_postings --
-- Which memory has which word of a question, and how much it says there; of several words that
-- stand in for one, the one that says most.
create function question_postings(
  tenant text, numbers smallint[], readings text[], factors real[]
) returns table (number smallint, doc bigint, impact real, place smallint)
language sql stable
begin atomic
  select r.number, w.doc, w.impact, w.place
  from unnest(numbers, readings, factors) as r (number, word, factor)
  join index_words w on w.tenant_id = tenant and w.word = r.word
  where r.factor = 1
  union all
  select r.number, w.doc, max(w.impact) * r.factor, min(w.place)
  from unnest(numbers, readings, factors) as r (number, word, factor)
  join index_words w on w.tenant_id = tenant and w.word = r.word
  where r.factor < 1
  group by r.number, r.factor, w.doc;
end;

-- word_counts --
-- How many memories have each word of a question, or one that stands in for it.
create function word_counts(tenant text, numbers smallint[], readings text[], factors real[])
returns table (number smallint, found bigint)
language sql stable
begin atomic
  select r.number, (
    select count(*) from index_words w where w.tenant_id = tenant and w.word = r.word
  )
  from unnest(numbers, readings, factors) as r (number, word, factor)
  where r.factor = 1
  union all
  select r.number, count(distinct w.doc)
  from unnest(numbers, readings, factors) as r (number, word, factor)
  join index_words w on w.tenant_id = tenant and w.word = r.word
  where r.factor < 1
  group by r.number;
end;

-- matching_docs --
-- The best by words, of those that may be shown. All are added up; twice as many as asked for are
-- looked up, and only where most of those may not be shown, more.
create function matching_docs(
  tenant text, numbers smallint[], readings text[], factors real[], weights float[], {asked},
  depth integer
) returns bigint[]
language plpgsql stable as $$
    declare
      docs bigint[];
      scored bigint;
      enough bigint := 2 * depth;
    begin
      loop
        with scored as materialized (
          select p.doc, sum(p.impact * weights[p.number]) as score
          from question_postings(tenant, numbers, readings, factors) p
          group by p.doc
          order by score desc, p.doc desc
          limit enough
        )
        select (array_agg(n.doc order by n.score desc, n.doc desc))[1:depth],
          (select count(*) from scored)
        into docs, scored
        from scored n
        cross join lateral (
          select from index_memories m
          where m.tenant_id = tenant and m.doc = n.doc and is_found(m, {given})
          offset 0
        ) seen;
        exit when cardinality(docs) = depth or scored < enough;
        enough := 16 * enough;
      end loop;
      return docs;
    end
    $$;

-- said_words --
-- Which words of a question each of these memories has, how much they say of it, and where.
create function said_words(
  tenant text, numbers smallint[], readings text[], factors real[], weights float[], docs bigint[]
) returns table (doc bigint, rank float, matched smallint[], impacts real[], places smallint[])
language plpgsql stable as $$
    begin
      return query
      select h.doc, sum(h.impact * weights[h.number]), array_agg(h.number order by h.number),
        array_agg(h.impact order by h.number), array_agg(h.place order by h.number)
      from (
        select r.number, w.doc, max(w.impact * r.factor) as impact, min(w.place) as place
        from index_words w
        join unnest(numbers, readings, factors) as r (number, word, factor) on r.word = w.word
        where w.tenant_id = tenant and w.word = any(readings) and w.doc = any(docs)
        group by r.number, w.doc
      ) h
      group by h.doc;
    end
    $$;

-- find_candidates --
-- The best by meaning, by meaning without the names in the question, and by words, each to the
-- same depth, with what there is to rank them by. The first row is about the question.
create function find_candidates(
  tenant text, version uuid, asked text, bare text, near vector, near_bare vector, {asked},
  depth integer, names_known bigint, total_known bigint, read_whole bigint
) returns table (
  stale boolean, words text[], bare_words text[], counts bigint[], total bigint,
  memory_type text, id uuid, created_at timestamptz, said_at timestamptz, session_id uuid,
  place integer, author text, entity_id uuid, length integer, similarity float,
  bare_similarity float, rank float, meaning_place bigint, bare_place bigint, words_place bigint,
  matched smallint[], impacts real[], places smallint[]
)
language plpgsql as $$
    declare
      half halfvec := near::halfvec(384);
      half_bare halfvec := near_bare::halfvec(384);
      numbers smallint[];
      readings text[];
      factors real[];
      near_docs bigint[];
      bare_docs bigint[];
      weights float[];
      word_docs bigint[];
    begin
      perform set_config('butlers.tenant', tenant, true);
      words := question_words(asked);
      bare_words := question_words(bare);
      -- Counted no further than it decides something: a hundred thousand would take ten
      -- milliseconds, and how rare a word is does not hang on the last few of them.
      total := (
        select count(*) from (
          select from index_memories m where m.tenant_id = tenant limit read_whole + 1
        ) counted
      );
      if total > read_whole then
        total := greatest(total, total_known);
      end if;
      stale := names_known <> (select count(*) from index_names n where n.tenant_id = tenant)
        or version is distinct from (
          select e.id from embedding_versions e where e.tenant_id = tenant and e.state = 'current'
        );
      near_docs := nearest_docs(tenant, version, half, {given}, depth, total > read_whole);
      bare_docs := nearest_docs(tenant, version, half_bare, {given}, depth, total > read_whole);
      select array_agg(r.number), array_agg(r.word), array_agg(r.factor)
      into numbers, readings, factors
      from question_readings(tenant, words) r;
      select array_agg(coalesce(c.found, 0) order by n),
        array_agg(ln(1 + (greatest(total, c.found) - c.found + 0.5) / (c.found + 0.5)) order by n)
      into counts, weights
      from generate_series(1, cardinality(words)) as n
      left join word_counts(tenant, numbers, readings, factors) c on c.number = n;
      if numbers is not null then
        word_docs := matching_docs(
          tenant, numbers, readings, factors, weights, {given}, depth
        );
      end if;
      return next;
      return query
      with legs as materialized (
        select f.doc, min(f.near) as near, min(f.bare) as bare, min(f.word) as word
        from (
          select n.doc, n.place as near, null::bigint as bare, null::bigint as word
          from unnest(near_docs) with ordinality as n (doc, place)
          union all
          select n.doc, null, n.place, null from unnest(bare_docs) with ordinality as n (doc, place)
          union all
          select n.doc, null, null, n.place
          from unnest(word_docs) with ordinality as n (doc, place)
        ) f
        group by f.doc
      )
      select null::boolean, null::text[], null::text[], null::bigint[], null::bigint,
        m.memory_type, m.memory_id, m.created_at, m.said_at, m.session_id, m.place, m.author,
        m.entity_id, m.length, 1 - (v.embedding <=> half), 1 - (v.embedding <=> half_bare),
        coalesce(s.rank, 0), l.near, l.bare, l.word, coalesce(s.matched, '{}'),
        coalesce(s.impacts, '{}'), coalesce(s.places, '{}')
      from legs l
      join index_memories m on m.tenant_id = tenant and m.doc = l.doc
      left join index_vectors v on v.tenant_id = tenant and v.version_id = version
        and v.doc = l.doc
      left join said_words(
        tenant, numbers, readings, factors, weights, near_docs || bare_docs || word_docs
      ) s on s.doc = l.doc;
    end
    $$;

-- tell_memories --
-- Memories as their readers get them, whatever their kind.
create function tell_memories(tenant text, types text[], ids uuid[], at timestamptz)
returns table (memory_type text, id uuid, told jsonb)
language plpgsql as $$
    begin
      perform set_config('butlers.tenant', tenant, true);
      return query
      select 'episode', e.id, to_jsonb(e) from (
        select m.id, m.tenant_id, m.butler, m.session_id, m.content, m.retry_count, m.last_error,
          m.importance, m.reference_count, m.consolidated, m.consolidation_status,
          m.consolidation_attempts, m.last_consolidation_error, m.next_consolidation_retry_at,
          m.dead_letter_reason, m.created_at, m.last_referenced_at, m.expires_at, m.place,
          m.author, m.said_at, m.metadata
        from unnest(types, ids) as w (type, id)
        join episodes m on m.tenant_id = tenant and m.id = w.id
        where w.type = 'episode'
      ) e
      union all
      select 'fact', f.id, to_jsonb(f) from (
        select m.id, m.tenant_id, m.subject, m.predicate, m.content, m.importance, m.confidence,
          m.decay_rate, m.permanence, m.source_butler, m.source_episode_id, m.supersedes_id,
          m.entity_id, m.validity, fact_state(m.validity, m.metadata) as state, m.scope,
          m.reference_count, m.created_at, m.last_referenced_at, m.last_confirmed_at,
          m.session_id, m.place, m.author, m.said_at, m.tags, m.metadata,
          effective_confidence(m.confidence, m.decay_rate, m.last_confirmed_at, at)
            as effective_confidence
        from unnest(types, ids) as w (type, id)
        join facts m on m.tenant_id = tenant and m.id = w.id
        where w.type = 'fact'
      ) f
      union all
      select 'rule', r.id, to_jsonb(r) from (
        select m.id, m.tenant_id, m.content, m.scope, m.maturity, m.confidence, m.decay_rate,
          m.permanence, m.effectiveness_score, m.applied_count, m.success_count, m.harmful_count,
          m.source_episode_id, m.source_butler, m.created_at, m.last_applied_at,
          m.last_evaluated_at, m.last_confirmed_at, m.reference_count, m.last_referenced_at,
          m.tags, m.metadata, rule_state(m.metadata) as state,
          effective_confidence(m.confidence, m.decay_rate, m.last_confirmed_at, at)
            as effective_confidence
        from unnest(types, ids) as w (type, id)
        join rules m on m.tenant_id = tenant and m.id = w.id
        where w.type = 'rule'
      ) r;
    end
    $$;

-- tenant_standing --
-- What a process may remember of a tenant: the models it knows, the names of its people, and how
-- many memories it has.
create function tenant_standing(tenant text)
returns table (versions jsonb, names text[], memories bigint)
language plpgsql as $$
    begin
      perform set_config('butlers.tenant', tenant, true);
      versions := (
        select coalesce(jsonb_agg(to_jsonb(v) order by v.created_at desc, v.id), '[]')
        from (
          select e.id, e.model, e.version, e.dimensions, e.directory, e.state, e.created_at
          from embedding_versions e where e.tenant_id = tenant
        ) v
      );
      names := (
        select coalesce(array_agg(n.name order by n.name), '{}')
        from index_names n where n.tenant_id = tenant
      );
      memories := (select count(*) from index_memories m where m.tenant_id = tenant);
      return next;
    end
    $$;
