-- query_words --
-- The different words of a question in their order; of a pasted document the first 64.
create or replace function query_words(asked text) returns text[]
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

-- words_with_prefix --
-- Indexed words with a prefix, each found by one step through the index.
create or replace function words_with_prefix(
  tenant text, beginning text, most integer, low boolean default false
) returns setof text
language sql stable
begin atomic
  with recursive known (word, number) as (
    (
      select w.word, 1 from index_words w
      where w.tenant_id = tenant and w.word >= beginning and (w.doc < 0) = low
      order by w.word
      limit 1
    )
    union all
    select further.word, known.number + 1
    from known
    cross join lateral (
      select w.word from index_words w
      where w.tenant_id = tenant and w.word > known.word and (w.doc < 0) = low
      order by w.word
      limit 1
    ) further
    where known.number < most and starts_with(known.word, beginning)
  )
  select word from known where starts_with(word, beginning);
end;

-- one_letter_variants --
-- Every word that differs by one letter (missing, extra, other, swapped) after the first two.
create or replace function one_letter_variants(word text) returns text[]
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

-- similar_words --
-- Indexed words that may be meant by one that no memory has: prefixes, misspellings, other endings.
create or replace function similar_words(tenant text, asked text, low boolean default false)
returns setof text
language sql stable
begin atomic
  select word
  from (
    select word, case when starts_with(word, asked) then 1 else 3 end as kind
    from words_with_prefix(tenant, left(asked, greatest(4, length(asked) - 3)), 200, low) as word
    where length(word) <= 2 * length(asked) + 4
    union all
    select distinct w.word, 2
    from unnest(one_letter_variants(asked)) as other
    join index_words w on w.tenant_id = tenant and w.word = other and (w.doc < 0) = low
    where length(asked) >= 4
  ) likely
  group by word
  order by min(kind), abs(length(word) - length(asked)), word
  limit 5;
end;

-- query_terms_type --
-- Words of a question with counts and weights, and the indexed words to read for them.
create type query_terms as (
  counts bigint[], weights float[],
  numbers smallint[], readings text[], factors real[], term_weights float[]
);

-- document_frequency --
-- How many memories have a word: exact up to some sixteen thousand, beyond that by the sample.
create or replace function document_frequency(tenant text, term text, low boolean default false)
returns bigint
language plpgsql stable as $$
    declare
      sampled bigint := (
        select count(*) from index_words w
        where w.tenant_id = tenant and w.word = term and hashint8(w.doc) & 31 = 0
          and (w.doc < 0) = low
      );
    begin
      if sampled >= 500 then
        return 32 * sampled;
      end if;
      return (
        select count(*) from index_words w
        where w.tenant_id = tenant and w.word = term and (w.doc < 0) = low
      );
    end
    $$;

-- query_terms --
-- Look up the words of a question; a word that no memory has is replaced by similar ones.
create or replace function query_terms(
  tenant text, words text[], total bigint, low boolean default false
) returns query_terms
language plpgsql stable as $$
    declare
      known query_terms;
      meant text[];
      missing integer := 0;
      many bigint;
    begin
      known.counts := array(
        select document_frequency(tenant, s.word, low)
        from unnest(words) with ordinality as s (word, number)
        order by s.number
      );
      for number in 1 .. cardinality(words) loop
        if known.counts[number] > 0 then
          known.numbers := known.numbers || number::smallint;
          known.readings := known.readings || words[number];
          known.factors := known.factors || 1.0::real;
        elsif length(words[number]) >= 4 and words[number] !~ '[[:digit:][:punct:]]'
          and missing < 8
        then
          missing := missing + 1;
          meant := array(select s from similar_words(tenant, words[number], low) as s);
          many := 0;
          if meant <> '{}' then
            select count(distinct i.doc) into many from index_words i
            where i.tenant_id = tenant and i.word = any(meant) and (i.doc < 0) = low;
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
      known.term_weights := array(
        select known.weights[r.number] * r.factor
        from unnest(known.numbers, known.factors) with ordinality as r (number, factor, place)
        order by r.place
      );
      return known;
    end
    $$;

-- word_scores --
-- Score that each word adds to the memories that have it; of several stand-ins the highest.
create or replace function word_scores(tenant text, known query_terms, low boolean default false)
returns table (doc bigint, score float)
language sql stable
begin atomic
  select w.doc, w.impact * r.weight
  from unnest((known).readings, (known).factors, (known).term_weights) as r (word, factor, weight)
  join index_words w on w.tenant_id = tenant and w.word = r.word and (w.doc < 0) = low
  where r.factor = 1
  union all
  select w.doc, max(w.impact * r.weight)
  from unnest((known).numbers, (known).readings, (known).factors, (known).term_weights)
    as r (number, word, factor, weight)
  join index_words w on w.tenant_id = tenant and w.word = r.word and (w.doc < 0) = low
  where r.factor < 1
  group by r.number, w.doc;
end;
