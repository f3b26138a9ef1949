-- said --
-- Who said something, when, and at which place of which session; all of it may be unknown.
alter table episodes
add column author text,
add column said_at timestamptz,
add column place integer;
alter table facts
add column session_id uuid,
add column place integer,
add column author text;

-- index_memories --
-- What a search must know to choose and rank, and nothing else: a row of a hundred bytes in place
-- of one of two thousand. Counting uses does not touch it; what does change has room on its page.
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
  primary key (tenant_id, doc),
  constraint index_memories_memory unique (tenant_id, memory_type, memory_id),
  constraint index_memories_memory_type check (memory_type in ('episode', 'fact', 'rule')),
  constraint index_memories_tenant_named check (tenant_id <> '')
) with (fillfactor = 85);
create index index_memories_session on index_memories (tenant_id, session_id, place)
where session_id is not null;

-- index_words --
-- Which memory has which word, how much the word says of it, and where it stands first. Ordered
-- by bytes, so that the words with one beginning lie together.
create table index_words (
  tenant_id text not null,
  word text collate "C" not null,
  doc bigint not null,
  impact real not null,
  place smallint not null,
  primary key (tenant_id, word, doc) include (impact, place),
  constraint index_words_tenant_named check (tenant_id <> '')
);

-- index_vectors --
-- Every vector of every version, wherever the memory keeps it, at half its precision.
create table index_vectors (
  tenant_id text not null,
  version_id uuid not null,
  doc bigint not null,
  embedding halfvec(384) not null,
  primary key (tenant_id, version_id, doc),
  constraint index_vectors_tenant_named check (tenant_id <> '')
);
alter table index_vectors alter column embedding set storage main;

-- index_names --
-- The words that people are named by.
create table index_names (
  tenant_id text not null,
  name text not null,
  primary key (tenant_id, name),
  constraint index_names_tenant_named check (tenant_id <> '')
);

-- own_tenant --
-- The index is as closed as what it is made of.
alter table {table} enable row level security, force row level security;
create policy {table}_own_tenant on {table}
using (tenant_id = current_setting('butlers.tenant', true))
with check (tenant_id = current_setting('butlers.tenant', true));
grant select, insert on {table} to butlers_runtime;

-- rights --
-- Triggers act for whoever writes a memory, so the role needs what they do.
grant update, delete on index_memories to butlers_runtime;
grant delete on index_words, index_vectors to butlers_runtime;

-- word_count --
-- How many words a text has, those that say nothing left out.
create function word_count(words tsvector) returns integer
language sql immutable parallel safe
return (
  select coalesce(sum(coalesce(array_length(positions, 1), 1)), 0)::integer from unnest(words)
);

-- word_impact --
-- What a word says of a text by how often it stands there and how long the text is: the part of
-- BM25 (k1 = 1.2, b = 0.75) that needs no other memory, against a text of thirty words.
create function word_impact(times integer, length integer) returns real
language sql immutable parallel safe
return (2.2 * times / (times + 1.2 * (0.25 + 0.75 * length / 30.0)))::real;

-- name_words --
-- The words of a name that tell one person from another: long enough, and no role.
create function name_words(name text) returns setof text
language sql immutable parallel safe
begin atomic
  select distinct word
  from regexp_split_to_table(lower(name), '[[:space:][:punct:][:digit:]]+') as word
  where length(word) >= 3
    and word not in ('user', 'assistant', 'system', 'human', 'ai', 'bot', 'agent');
end;

-- indexed_memories --
-- Every memory as the index must have it: what it is compared with and rebuilt from.
create view indexed_memories with (security_invoker = true) as
select tenant_id, 'episode' as memory_type, id as memory_id, true as shown, butler as scope,
  1.0::float as confidence, 0.0::float as decay_rate, null::timestamptz as confirmed_at, expires_at,
  created_at, said_at, session_id, place, author, null::uuid as entity_id, search_vector
from episodes
union all
select tenant_id, 'fact', id, validity = 'active', scope, confidence, decay_rate,
  last_confirmed_at, null, created_at, said_at, session_id, place, author, entity_id, search_vector
from facts
union all
select tenant_id, 'rule', id, rule_state(metadata) <> 'forgotten', scope, confidence, decay_rate,
  last_confirmed_at, null, created_at, null, null, null, null, null, search_vector
from rules;
grant select on indexed_memories to butlers_runtime;

-- indexed_vectors --
-- Every vector of a memory: the one in its row, and those aside that are of another version.
create view indexed_vectors with (security_invoker = true) as
select tenant_id, 'episode' as memory_type, id as memory_id, embedding_version_id as version_id,
  embedding
from episodes where embedding_version_id is not null
union all
select v.tenant_id, 'episode', v.episode_id, v.embedding_version_id, v.embedding
from episode_vectors v
join episodes m on m.tenant_id = v.tenant_id and m.id = v.episode_id
  and m.embedding_version_id is distinct from v.embedding_version_id
union all
select tenant_id, 'fact', id, embedding_version_id, embedding
from facts where embedding_version_id is not null
union all
select v.tenant_id, 'fact', v.fact_id, v.embedding_version_id, v.embedding
from fact_vectors v
join facts m on m.tenant_id = v.tenant_id and m.id = v.fact_id
  and m.embedding_version_id is distinct from v.embedding_version_id
union all
select tenant_id, 'rule', id, embedding_version_id, embedding
from rules where embedding_version_id is not null
union all
select v.tenant_id, 'rule', v.rule_id, v.embedding_version_id, v.embedding
from rule_vectors v
join rules m on m.tenant_id = v.tenant_id and m.id = v.rule_id
  and m.embedding_version_id is distinct from v.embedding_version_id;
grant select on indexed_vectors to butlers_runtime;

-- {by_index} --
-- However few rows there are when a plan is made, it must serve when there are many.
set enable_seqscan = off

-- last_place --
-- The last place taken in a session; none without a session.
create function last_place(tenant text, session uuid) returns integer
language sql stable
begin atomic
  select case when session is not null then coalesce(max(place), 0) end
  from index_memories where tenant_id = tenant and session_id = session;
end;

-- enter_words --
-- The words of a memory enter the index.
create function enter_words(
  tenant text, number bigint, words tsvector, length integer
) returns void
language sql
begin atomic
  insert into index_words (tenant_id, word, doc, impact, place)
  select tenant, lexeme, number,
    word_impact(coalesce(array_length(positions, 1), 1), length), coalesce(positions[1], 0)
  from unnest(words);
end;

-- enter_names --
-- The words of a person's name enter the index, in one order, so that two who tell of the same
-- people at once cannot wait for each other.
create function enter_names(tenant text, names text[]) returns void
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

-- keep_vectors --
-- The vectors of a memory in the index are those it has: no other, none missing.
create function keep_vectors(tenant text, kind text, memory uuid) returns void
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

-- enter_memory --
-- A memory enters the index; one of a session that has no place of its own comes last there.
create function enter_memory(tenant text, kind text, memory uuid) returns void
language plpgsql {by_index} as $$
    declare
      number bigint;
      words tsvector;
      said_by text;
    begin
      select m.search_vector, m.author into words, said_by from indexed_memories m
      where m.tenant_id = tenant and m.memory_type = kind and m.memory_id = memory;
      insert into index_memories
        (tenant_id, memory_type, memory_id, shown, scope, confidence, decay_rate, confirmed_at,
         expires_at, created_at, said_at, session_id, place, author, entity_id, length)
      select m.tenant_id, m.memory_type, m.memory_id, m.shown, m.scope, m.confidence, m.decay_rate,
        m.confirmed_at, m.expires_at, m.created_at, m.said_at, m.session_id,
        coalesce(m.place, last_place(tenant, m.session_id) + 1), m.author, m.entity_id,
        word_count(words)
      from indexed_memories m
      where m.tenant_id = tenant and m.memory_type = kind and m.memory_id = memory
      returning doc into number;
      perform enter_words(tenant, number, words, word_count(words));
      perform enter_names(tenant, array[said_by]);
      perform keep_vectors(tenant, kind, memory);
    end
    $$;
