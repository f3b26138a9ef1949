-- sampled --
-- One memory in 32 stands for the others where a word is in very many of them. Which one, no rhythm
-- of what is stored decides.
create index index_words_sampled on index_words (tenant_id, word) include (doc, impact)
where hashint8(doc) & 31 = 0;

-- memories_with --
-- How many memories have a word: exact up to some sixteen thousand; beyond, what the sample says is
-- right to about a twentieth, and the weight of a word in a million to a hundredth.
create function memories_with(tenant text, spoken text) returns bigint
language plpgsql stable as $$
    declare
      sampled bigint := (
        select count(*) from index_words w
        where w.tenant_id = tenant and w.word = spoken and hashint8(w.doc) & 31 = 0
      );
    begin
      if sampled >= 500 then
        return 32 * sampled;
      end if;
      return (select count(*) from index_words w where w.tenant_id = tenant and w.word = spoken);
    end
    $$;

-- known_words --
-- A word that no memory has is stood for by what may be meant by it, which counts for less.
create or replace function known_words(tenant text, spoken text[], total bigint) returns known_words
language plpgsql stable as $$
    declare
      known known_words;
      meant text[];
      missing integer := 0;
      many bigint;
    begin
      known.counts := array(
        select memories_with(tenant, s.word) from unnest(spoken) with ordinality as s (word, number)
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
          many := 0;
          if meant <> '{}' then
            select count(distinct i.doc) into many from index_words i
            where i.tenant_id = tenant and i.word = any(meant);
          end if;
          known.counts[number] := many;
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

-- postings --
-- What a word adds to each memory that has it, in their order.
create function word_postings(tenant text, spoken text, told float)
returns table (doc bigint, score float)
language sql stable
begin atomic
  select w.doc, w.impact * told from index_words w
  where w.tenant_id = tenant and w.word = spoken
  order by w.doc;
end;

-- stand_in_postings --
-- The same for what stands in for words that no memory has: of several, the one that says most.
create function stand_in_postings(tenant text, known known_words)
returns table (doc bigint, score float)
language sql stable
begin atomic
  select w.doc, max(w.impact * r.told)
  from unnest((known).numbers, (known).readings, (known).factors, (known).told)
    as r (number, word, factor, told)
  join index_words w on w.tenant_id = tenant and w.word = r.word
  where r.factor < 1
  group by r.number, w.doc
  order by w.doc;
end;

-- sampled_score --
-- The score of the nth of the memories of the sample, or somewhat more: of several words that
-- stand in for one, all are added up.
create function sampled_score(tenant text, known known_words, nth integer) returns float
language plpgsql stable as $$
    begin
      return (
        select sum(w.impact * r.told) as score
        from unnest(known.readings, known.told) as r (word, told)
        join index_words w on w.tenant_id = tenant and w.word = r.word
        where hashint8(w.doc) & 31 = 0
        group by w.doc
        order by score desc
        offset nth - 1
        limit 1
      );
    end
    $$;

-- scored --
-- Memories in their order with what the words that were looked up so far add to each.
create type scored as (docs bigint[], scores float[]);

-- scored_by --
-- The memories that words find, but for those that would not reach a score with the rest. Lists
-- that are in one order are merged at half of what it costs to hash them.
create function scored_by(
  tenant text, known known_words, words text[], told float[], rest float, enough float
) returns scored
language plpgsql stable set enable_hashagg = off as $$
    declare
      found scored;
    begin
      select array_agg(s.doc), array_agg(s.score) into found
      from (
        select w.doc, sum(w.score) as score
        from (
          select doc, score from stand_in_postings(tenant, known)
          union all select doc, score from word_postings(tenant, words[1], told[1])
          union all select doc, score from word_postings(tenant, words[2], told[2])
          union all select doc, score from word_postings(tenant, words[3], told[3])
          union all select doc, score from word_postings(tenant, words[4], told[4])
          union all select doc, score from word_postings(tenant, words[5], told[5])
          union all select doc, score from word_postings(tenant, words[6], told[6])
          union all select doc, score from word_postings(tenant, words[7], told[7])
          union all select doc, score from word_postings(tenant, words[8], told[8])
        ) w
        group by w.doc
        having sum(w.score) + rest >= enough
      ) s;
      return found;
    end
    $$;

-- scored_also_by --
-- The same memories with what one more word adds, but for those that now would not. Most have it
-- not, and need not be looked at but for the best of them.
create function scored_also_by(
  tenant text, spoken text, told float, before scored, rest float, enough float
) returns scored
language plpgsql stable as $$
    declare
      found scored;
    begin
      select array_agg(s.doc), array_agg(s.score) into found
      from (
        select r.doc, max(r.score) as score
        from (
          select f.doc, f.score
          from (select unnest(before.docs) as doc, unnest(before.scores) as score) f
          union all
          select w.doc, before.scores[width_bucket(w.doc, before.docs)] + w.impact * told
          from index_words w
          where w.tenant_id = tenant and w.word = spoken and w.doc = any(before.docs)
        ) r
        where r.score + rest >= enough
        group by r.doc
        order by r.doc
      ) s;
      return found;
    end
    $$;

-- matching_above --
-- The best that reach a score by words; none where not enough do. The rarest words are read; once the
-- others could not reach it together, they are only looked up, for the memories that still can.
create function matching_above(tenant text, known known_words, most integer, enough float)
returns bigint[]
language plpgsql stable as $$
    declare
      -- What a word adds at most: its weight times the bound of its part in BM25.
      highest constant float := 2.2;
      -- Sums are rounded, and differ by the order in which they were made.
      kept constant float := enough * (1 - 1e-6);
      words text[];
      told float[];
      rests float[];
      read integer := 0;
      found scored;
    begin
      select array_agg(r.word order by r.told desc, r.number),
        array_agg(r.told order by r.told desc, r.number),
        array_agg(r.rest order by r.told desc, r.number)
      into words, told, rests
      from (
        select r.number, r.word, r.told,
          highest * sum(r.told) over (order by r.told, r.number desc) as rest
        from unnest(known.numbers, known.readings, known.factors, known.told)
          as r (number, word, factor, told)
        where r.factor = 1
      ) r;
      rests := rests || 0::float;
      while rests[read + 1] >= kept loop
        read := read + 1;
      end loop;
      if read > 8 then
        return null;
      end if;
      found := scored_by(tenant, known, words[1 : read], told[1 : read], rests[read + 1], kept);
      while read < cardinality(words) loop
        read := read + 1;
        found := scored_also_by(tenant, words[read], told[read], found, rests[read + 1], kept);
      end loop;
      if (select count(*) from unnest(found.scores) as s where s >= enough) < most then
        return null;
      end if;
      return array(
        select f.doc from unnest(found.docs, found.scores) as f (doc, score)
        order by f.score::real desc, f.doc desc
        limit most
      );
    end
    $$;

-- matching_memories --
-- The best by words. Where few memories share one, all are added up; else a sample says what the
-- last of the best may have, and only what can reach that is: it is right once enough do.
create or replace function matching_memories(tenant text, known known_words, most integer)
returns bigint[]
language plpgsql stable as $$
    declare
      -- How many of the best the sample has, but for chance.
      expected float := most / 32.0;
      matching bigint[];
      enough float;
    begin
      if (select sum(c) from unnest(known.counts) as c) > 8000 then
        enough := sampled_score(tenant, known, ceil(expected + 2 * sqrt(expected) + 1)::integer);
        if enough > 0 then
          matching := matching_above(tenant, known, most, enough);
        end if;
      end if;
      return coalesce(matching, array(
        select w.doc from word_scores(tenant, known) w
        group by w.doc
        order by sum(w.score)::real desc, w.doc desc
        limit most
      ));
    end
    $$;
