-- index_memories --
-- What a search needs to choose and rank a memory: a row of a hundred bytes in place of one of two
-- thousand. Counting uses does not touch it; what does change has room on its page. Memories of low
-- trust have negative numbers, here and in the tables below: each search reads one side alone.
create table index_memories (
  tenant_id text not null,
  doc bigint not null generated always as identity,
  memory_type text not null,
  memory_id uuid not null,
  shown boolean not null,
  scope text not null,
  confidence float not null,
  decay_rate float not null,
  confirmed_at timestamptz,
  expires_at timestamptz,
  created_at timestamptz not null,
  said_at timestamptz,
  session_id uuid,
  place integer,
  author text,
  entity_id uuid,
  length integer not null,
  confidence_floor float not null default 0.0,
  valid_from timestamptz,
  valid_to timestamptz,
  past boolean not null default false,
  primary key (tenant_id, doc),
  constraint index_memories_memory unique (tenant_id, memory_type, memory_id),
  constraint index_memories_memory_type check (memory_type in ('episode', 'fact', 'rule'))
) with (fillfactor = 85);
create index index_memories_session on index_memories (tenant_id, session_id, place)
where session_id is not null;

-- index_words --
-- Postings: which memory contains which word, its impact there and its first position. One memory
-- in 32, chosen by a hash, is a sample for words that very many memories contain.
create table index_words (
  tenant_id text not null,
  word text collate "C" not null,
  doc bigint not null,
  impact real not null,
  place smallint not null,
  primary key (tenant_id, word, doc) include (impact, place)
);
create index index_words_sampled on index_words (tenant_id, word) include (doc, impact)
where hashint8(doc) & 31 = 0;

-- index_vectors --
-- Every vector of every version at half precision. The graph serves tenants too large to be read
-- whole; denser than the default, which found 97 of 100 true neighbours among 100,000 rows.
create table index_vectors (
  tenant_id text not null,
  version_id uuid not null,
  doc bigint not null,
  embedding halfvec(384) storage main not null,
  primary key (tenant_id, version_id, doc)
);
create index index_vectors_nearest on index_vectors using hnsw (embedding halfvec_cosine_ops)
with (m = 24, ef_construction = 128);

-- index_names --
-- Words of the names of people a tenant knows.
create table index_names (
  tenant_id text not null,
  name text not null,
  primary key (tenant_id, name)
);

-- word_count --
-- Number of words in a text, stop words left out.
create or replace function word_count(words tsvector) returns integer
language sql immutable parallel safe
return (
  select coalesce(sum(coalesce(array_length(positions, 1), 1)), 0)::integer from unnest(words)
);

-- bm25_impact --
-- The part of BM25 (k1 = 1.2, b = 0.75) that depends on this memory alone, against an average
-- length of thirty words.
create or replace function bm25_impact(times integer, length integer) returns real
language sql immutable parallel safe
return (2.2 * times / (times + 1.2 * (0.25 + 0.75 * length / 30.0)))::real;

-- name_words --
-- Words of a name that tell people apart: long enough, and not a role.
create or replace function name_words(name text) returns setof text
language sql immutable parallel safe
begin atomic
  select distinct word
  from regexp_split_to_table(lower(name), '[[:space:][:punct:][:digit:]]+') as word
  where length(word) >= 3
    and word not in ('user', 'assistant', 'system', 'human', 'ai', 'bot', 'agent');
end;

-- indexed_memories --
-- What the index should say of each memory. Quarantined ones are in the index and never shown.
create or replace view indexed_memories with (security_invoker = true) as
select tenant_id, 'episode' as memory_type, id as memory_id, quarantined is null as shown,
  butler as scope, 1.0::float as confidence, 0.0::float as decay_rate,
  null::timestamptz as confirmed_at, expires_at, created_at, said_at, session_id, place, author,
  null::uuid as entity_id, search_vector, null::timestamptz as valid_from,
  null::timestamptz as valid_to, false as past, 0.0::float as confidence_floor, trust
from episodes
union all
select tenant_id, 'fact', id, validity = 'active', scope, confidence, decay_rate,
  last_confirmed_at, null, created_at, said_at, session_id, place, author, entity_id,
  search_vector, valid_from, valid_to, validity in ('superseded', 'expired'), 0.0,
  trust
from facts
union all
select tenant_id, 'rule', id, quarantined is null and rule_state(metadata) <> 'forgotten', scope,
  confidence, decay_rate, last_confirmed_at, null, created_at, null, null, null, null, null,
  search_vector, null, null, false, confidence_floor, trust
from rules;
grant select on indexed_memories to butlers_runtime;

-- {kind}: episode, fact, rule --
-- {vectors_of_{kind}s} --
-- Every vector of one kind: those in the rows, and those aside that are of another version.
select tenant_id, '{kind}' as memory_type, id as memory_id, embedding_version_id as version_id,
  embedding
from {kind}s where embedding_version_id is not null
union all
select v.tenant_id, '{kind}', v.{kind}_id, v.embedding_version_id, v.embedding
from {kind}_vectors v
join {kind}s m on m.tenant_id = v.tenant_id and m.id = v.{kind}_id
  and m.embedding_version_id is distinct from v.embedding_version_id

-- indexed_vectors --
-- Every vector of every memory.
create or replace view indexed_vectors with (security_invoker = true) as
{vectors_of_episodes} union all {vectors_of_facts} union all {vectors_of_rules};
grant select on indexed_vectors to butlers_runtime;

-- last_position --
-- The last position taken in a session, by low trust or by others; null without a session.
create or replace function last_position(tenant text, session uuid, low boolean default false)
returns integer
language sql stable
begin atomic
  select case when session is not null then coalesce(max(place), 0) end
  from index_memories where tenant_id = tenant and session_id = session and (doc < 0) = low;
end;

-- add_words --
-- Add the words of a memory to the index.
create or replace function add_words(
  tenant text, number bigint, words tsvector, length integer
) returns void
language sql
begin atomic
  insert into index_words (tenant_id, word, doc, impact, place)
  select tenant, lexeme, number,
    bm25_impact(coalesce(array_length(positions, 1), 1), length), coalesce(positions[1], 0)
  from unnest(words);
end;

-- add_names --
-- Add the words of people's names to the index. Sorted, so that two writers cannot deadlock.
create or replace function add_names(tenant text, names text[]) returns void
language sql
begin atomic
  insert into index_names (tenant_id, name)
  select distinct tenant, word
  from unnest(names) as name
  cross join name_words(name) as word
  where not exists (select from index_names n where n.tenant_id = tenant and n.name = word)
  order by word
  on conflict do nothing;
end;

-- sync_vectors --
-- Make the vectors of a memory in the index equal to those it has.
create or replace function sync_vectors(tenant text, kind text, memory uuid) returns void
language plpgsql {by_index} as $$
    declare
      number bigint := (
        select doc from index_memories
        where tenant_id = tenant and memory_type = kind and memory_id = memory
      );
    begin
      delete from index_vectors v
      where v.tenant_id = tenant and v.doc = number
        and v.version_id in (select e.id from embedding_versions e where e.tenant_id = tenant)
        and not exists (
          select from indexed_vectors m
          where m.tenant_id = tenant and m.memory_type = kind and m.memory_id = memory
            and m.version_id = v.version_id and m.embedding::halfvec(384) = v.embedding
        );
      insert into index_vectors (tenant_id, version_id, doc, embedding)
      select tenant, m.version_id, number, m.embedding::halfvec(384)
      from indexed_vectors m
      where m.tenant_id = tenant and m.memory_type = kind and m.memory_id = memory
        and number is not null
      on conflict do nothing;
    end
    $$;

-- add_to_index --
-- Add a memory to the index. Without a position of its own it comes last in its session. An author
-- that low trust names is no name of a question.
create or replace function add_to_index(tenant text, kind text, memory uuid) returns void
language plpgsql {by_index} as $$
    declare
      number bigint;
      words tsvector;
      said_by text;
      is_low boolean;
      added index_memories;
    begin
      select m.search_vector, m.author, m.trust = 0 into words, said_by, is_low
      from indexed_memories m
      where m.tenant_id = tenant and m.memory_type = kind and m.memory_id = memory;
      insert into index_memories
        (tenant_id, memory_type, memory_id, shown, scope, confidence, decay_rate, confirmed_at,
         expires_at, created_at, said_at, session_id, place, author, entity_id, length)
      select m.tenant_id, m.memory_type, m.memory_id, m.shown, m.scope, m.confidence, m.decay_rate,
        m.confirmed_at, m.expires_at, m.created_at, m.said_at, m.session_id,
        coalesce(m.place, last_position(tenant, m.session_id, is_low) + 1), m.author, m.entity_id,
        word_count(words)
      from indexed_memories m
      where m.tenant_id = tenant and m.memory_type = kind and m.memory_id = memory
      returning doc into number;
      if is_low then
        -- Only a table's owner may draw a number without a row.
        delete from index_memories where tenant_id = tenant and doc = number returning * into added;
        number := -number;
        added.doc := number;
        insert into index_memories overriding system value values (added.*);
      end if;
      perform add_words(tenant, number, words, word_count(words));
      if not is_low then
        perform add_names(tenant, array[said_by]);
      end if;
      perform sync_vectors(tenant, kind, memory);
    end
    $$;
