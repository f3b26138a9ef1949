-- postings_of_word --
-- Score that one word adds to each memory that has it, in order of memories.
create or replace function postings_of_word(
  tenant text, term text, weight float, low boolean default false
)
returns table (doc bigint, score float)
language sql stable
begin atomic
  select w.doc, w.impact * weight from index_words w
  where w.tenant_id = tenant and w.word = term and (w.doc < 0) = low
  order by w.doc;
end;

-- similar_word_postings --
-- The same for stand-ins; of several for one word, the highest.
create or replace function similar_word_postings(
  tenant text, known query_terms, low boolean default false
)
returns table (doc bigint, score float)
language sql stable
begin atomic
  select w.doc, max(w.impact * r.weight)
  from unnest((known).numbers, (known).readings, (known).factors, (known).term_weights)
    as r (number, word, factor, weight)
  join index_words w on w.tenant_id = tenant and w.word = r.word and (w.doc < 0) = low
  where r.factor < 1
  group by r.number, w.doc
  order by w.doc;
end;

-- sampled_score --
-- An upper bound of the score of the nth best memory of the sample.
create or replace function sampled_score(
  tenant text, known query_terms, nth integer, low boolean default false
) returns float
language plpgsql stable as $$
    begin
      return (
        select sum(w.impact * r.weight) as score
        from unnest(known.readings, known.term_weights) as r (word, weight)
        join index_words w on w.tenant_id = tenant and w.word = r.word
        where hashint8(w.doc) & 31 = 0 and (w.doc < 0) = low
        group by w.doc
        order by score desc
        offset nth - 1
        limit 1
      );
    end
    $$;

-- scored_memories --
-- Memories in their order with the score of the words looked up so far.
create type scored_memories as (docs bigint[], scores float[]);

-- score_rare_words --
-- Memories that up to eight words find, without those that cannot reach a score with the rest.
-- Merging ordered lists costs half of hashing them.
create or replace function score_rare_words(
  tenant text, known query_terms, words text[], weights float[], rest float, enough float,
  low boolean default false
) returns scored_memories
language plpgsql stable set enable_hashagg = off as $$
    declare
      found scored_memories;
    begin
      select array_agg(s.doc), array_agg(s.score) into found
      from (
        select w.doc, sum(w.score) as score
        from (
          select doc, score from similar_word_postings(tenant, known, low)
          union all select doc, score from postings_of_word(tenant, words[1], weights[1], low)
          union all select doc, score from postings_of_word(tenant, words[2], weights[2], low)
          union all select doc, score from postings_of_word(tenant, words[3], weights[3], low)
          union all select doc, score from postings_of_word(tenant, words[4], weights[4], low)
          union all select doc, score from postings_of_word(tenant, words[5], weights[5], low)
          union all select doc, score from postings_of_word(tenant, words[6], weights[6], low)
          union all select doc, score from postings_of_word(tenant, words[7], weights[7], low)
          union all select doc, score from postings_of_word(tenant, words[8], weights[8], low)
        ) w
        group by w.doc
        having sum(w.score) + rest >= enough
      ) s;
      return found;
    end
    $$;

-- add_word_score --
-- The same memories with what one more word adds, without those that can no longer reach the score.
create or replace function add_word_score(
  tenant text, term text, weight float, before scored_memories, rest float, enough float
) returns scored_memories
language plpgsql stable as $$
    declare
      found scored_memories;
    begin
      select array_agg(s.doc), array_agg(s.score) into found
      from (
        select r.doc, max(r.score) as score
        from (
          select f.doc, f.score
          from (select unnest(before.docs) as doc, unnest(before.scores) as score) f
          union all
          select w.doc, before.scores[width_bucket(w.doc, before.docs)] + w.impact * weight
          from index_words w
          where w.tenant_id = tenant and w.word = term and w.doc = any(before.docs)
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
create or replace function matching_above(
  tenant text, known query_terms, most integer, enough float, low boolean default false
) returns bigint[]
language plpgsql stable as $$
    declare
      -- What a word adds at most: its weight times the bound of its part in BM25.
      highest constant float := 2.2;
      -- Sums are rounded, and differ by the order in which they were made.
      kept constant float := enough * (1 - 1e-6);
      words text[];
      weights float[];
      rests float[];
      read integer := 0;
      found scored_memories;
    begin
      select array_agg(r.word order by r.weight desc, r.number),
        array_agg(r.weight order by r.weight desc, r.number),
        array_agg(r.rest order by r.weight desc, r.number)
      into words, weights, rests
      from (
        select r.number, r.word, r.weight,
          highest * sum(r.weight) over (order by r.weight, r.number desc) as rest
        from unnest(known.numbers, known.readings, known.factors, known.term_weights)
          as r (number, word, factor, weight)
        where r.factor = 1
      ) r;
      rests := rests || 0::float;
      while rests[read + 1] >= kept loop
        read := read + 1;
      end loop;
      if read > 8 then
        return null;
      end if;
      found := score_rare_words(
        tenant, known, words[1 : read], weights[1 : read], rests[read + 1], kept, low
      );
      while read < cardinality(words) loop
        read := read + 1;
        found := add_word_score(tenant, words[read], weights[read], found, rests[read + 1], kept);
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
create or replace function matching_memories(
  tenant text, known query_terms, most integer, low boolean default false
) returns bigint[]
language plpgsql stable as $$
    declare
      -- How many of the best the sample has, but for chance.
      expected float := most / 32.0;
      matching bigint[];
      enough float;
    begin
      if (select sum(c) from unnest(known.counts) as c) > 8000 then
        enough := sampled_score(tenant, known, ceil(expected + 2 * sqrt(expected) + 1)::integer, low);
        if enough > 0 then
          matching := matching_above(tenant, known, most, enough, low);
        end if;
      end if;
      return coalesce(matching, array(
        select w.doc from word_scores(tenant, known, low) w
        group by w.doc
        order by sum(w.score)::real desc, w.doc desc
        limit most
      ));
    end
    $$;
