-- word_postings --
-- Score that one word adds to each memory that has it, in order of memories.
create or replace function word_postings(tenant text, spoken text, told float)
returns table (doc bigint, score float)
language sql stable
begin atomic
  select w.doc, w.impact * told from index_words w
  where w.tenant_id = tenant and w.word = spoken
  order by w.doc;
end;

-- stand_in_postings --
-- The same for stand-ins; of several for one word, the highest.
create or replace function stand_in_postings(tenant text, known known_words)
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
-- An upper bound of the score of the nth best memory of the sample.
create or replace function sampled_score(tenant text, known known_words, nth integer) returns float
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
-- Memories in their order with the score of the words looked up so far.
create type scored as (docs bigint[], scores float[]);

-- scored_by --
-- Memories that up to eight words find, without those that cannot reach a score with the rest.
-- Merging ordered lists costs half of hashing them.
create or replace function scored_by(
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
-- The same memories with what one more word adds, without those that can no longer reach the score.
create or replace function scored_also_by(
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
-- The best memories that reach a score; null where too few do. Rare words are read; once the others
-- together cannot reach the score, they are only looked up for memories that still can.
create or replace function matching_above(tenant text, known known_words, most integer, enough float)
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
-- The best memories by words. For common words a sample bounds the score of the last of the best,
-- and only memories that can reach it are added up.
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
