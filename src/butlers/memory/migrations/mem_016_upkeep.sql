-- {kind} --
-- What the memories of a table are called.
declare kind text := rtrim(tg_table_name, 's')

-- inserted --
-- What is stored enters the index in the same statement.
create function index_inserted() returns trigger language plpgsql as $$
    {kind};
    begin
      perform enter_memory(new.tenant_id, kind, new.id);
      return null;
    end
    $$;

-- changed --
-- What a search chooses by is kept as the memory has it; a place once taken stays.
create function index_changed() returns trigger language plpgsql as $$
    {kind};
    begin
      update index_memories i
      set shown = m.shown, scope = m.scope, confidence = m.confidence, decay_rate = m.decay_rate,
        confirmed_at = m.confirmed_at, expires_at = m.expires_at, created_at = m.created_at,
        said_at = m.said_at, session_id = m.session_id, author = m.author,
        entity_id = m.entity_id,
        place = case
          when m.place is not null then m.place
          when m.session_id is not distinct from i.session_id then i.place
          else last_place(m.tenant_id, m.session_id) + 1
        end
      from indexed_memories m
      where i.tenant_id = new.tenant_id and i.memory_type = kind and i.memory_id = new.id
        and m.tenant_id = new.tenant_id and m.memory_type = kind and m.memory_id = new.id;
      return null;
    end
    $$;

-- reworded --
-- The words of a memory that was reworded are those it has now.
create function index_reworded() returns trigger language plpgsql as $$
    {kind};
      number bigint;
    begin
      update index_memories set length = word_count(new.search_vector)
      where tenant_id = new.tenant_id and memory_type = kind and memory_id = new.id
      returning doc into number;
      if number is not null then
        delete from index_words
        where tenant_id = new.tenant_id and doc = number
          and word = any(tsvector_to_array(old.search_vector));
        perform enter_words(
          new.tenant_id, number, new.search_vector, word_count(new.search_vector)
        );
      end if;
      return null;
    end
    $$;

-- embedded --
-- So are its vectors.
create function index_embedded() returns trigger language plpgsql as $$
    {kind};
    begin
      perform keep_vectors(new.tenant_id, kind, new.id);
      return null;
    end
    $$;

-- deleted --
-- What is deleted leaves the index with its words and vectors.
create function index_deleted() returns trigger language plpgsql as $$
    {kind};
      number bigint;
    begin
      delete from index_memories
      where tenant_id = old.tenant_id and memory_type = kind and memory_id = old.id
      returning doc into number;
      delete from index_words
      where tenant_id = old.tenant_id and doc = number
        and word = any(tsvector_to_array(old.search_vector));
      delete from index_vectors v
      where v.tenant_id = old.tenant_id and v.doc = number and v.version_id in (
        select e.id from embedding_versions e where e.tenant_id = old.tenant_id
      );
      return null;
    end
    $$;

-- laid_aside --
-- A vector aside counts as one in the row does, until it is dropped.
create function index_{noun}_kept() returns trigger language plpgsql as $$
    begin
      perform keep_vectors(new.tenant_id, split_part(tg_table_name, '_', 1), new.{noun}_id);
      return null;
    end
    $$;
create function index_{noun}_dropped() returns trigger language plpgsql as $$
    begin
      perform keep_vectors(old.tenant_id, split_part(tg_table_name, '_', 1), old.{noun}_id);
      return null;
    end
    $$;

-- named --
-- A person goes by every name somebody gave it; who says something is somebody too.
create function index_person() returns trigger language plpgsql as $$
    begin
      perform enter_names(new.tenant_id, new.canonical_name::text || new.aliases);
      return null;
    end
    $$;
create function index_author() returns trigger language plpgsql as $$
    begin
      perform enter_names(new.tenant_id, array[new.author]);
      return null;
    end
    $$;

-- watched --
-- No flow can forget the index: the tables see to it.
create trigger {noun}s_index_inserted after insert on {noun}s
for each row execute function index_inserted();
create trigger {noun}s_index_deleted after delete on {noun}s
for each row execute function index_deleted();
create trigger {noun}s_index_reworded after update of search_vector on {noun}s
for each row when (old.search_vector is distinct from new.search_vector)
execute function index_reworded();
create trigger {noun}s_index_embedded after update of embedding, embedding_version_id on {noun}s
for each row when (
  old.embedding_version_id is distinct from new.embedding_version_id
  or old.embedding is distinct from new.embedding
)
execute function index_embedded();
create trigger {noun}_vectors_index_kept after insert on {noun}_vectors
for each row execute function index_{noun}_kept();
create trigger {noun}_vectors_index_dropped after delete on {noun}_vectors
for each row execute function index_{noun}_dropped();

-- chosen_by --
-- Only what a search chooses by is worth a write: a use that is counted changes none of it.
create trigger episodes_index_changed
after update of butler, expires_at, created_at, said_at, session_id, place, author on episodes
for each row when (
  (old.butler, old.expires_at, old.created_at, old.said_at, old.session_id, old.place, old.author)
  is distinct from
  (new.butler, new.expires_at, new.created_at, new.said_at, new.session_id, new.place, new.author)
)
execute function index_changed();
create trigger facts_index_changed
after update of validity, scope, confidence, decay_rate, last_confirmed_at, created_at, said_at,
  session_id, place, author, entity_id on facts
for each row when (
  (old.validity, old.scope, old.confidence, old.decay_rate, old.last_confirmed_at, old.created_at,
   old.said_at, old.session_id, old.place, old.author, old.entity_id)
  is distinct from
  (new.validity, new.scope, new.confidence, new.decay_rate, new.last_confirmed_at, new.created_at,
   new.said_at, new.session_id, new.place, new.author, new.entity_id)
)
execute function index_changed();
create trigger rules_index_changed
after update of metadata, scope, confidence, decay_rate, last_confirmed_at, created_at on rules
for each row when (
  (rule_state(old.metadata) = 'forgotten', old.scope, old.confidence, old.decay_rate,
   old.last_confirmed_at, old.created_at)
  is distinct from
  (rule_state(new.metadata) = 'forgotten', new.scope, new.confidence, new.decay_rate,
   new.last_confirmed_at, new.created_at)
)
execute function index_changed();
create trigger entities_index_named after insert or update of canonical_name, aliases, entity_type
on entities for each row when (new.entity_type = 'person') execute function index_person();
create trigger episodes_index_author after update of author on episodes
for each row when (old.author is distinct from new.author) execute function index_author();
create trigger facts_index_author after update of author on facts
for each row when (old.author is distinct from new.author) execute function index_author();

-- free --
-- Nothing searches the wide rows any more: vectors leave them, words stay where they are cheap.
drop index {noun}s_embedding;
drop index {noun}s_search;
alter table {noun}s alter column embedding set storage external;
alter table {noun}s alter column search_vector set storage main;

-- unentered --
-- How many memories of a tenant are not in the index.
select count(*) as number from indexed_memories m
where m.tenant_id = :tenant and not exists (
  select from index_memories i
  where i.tenant_id = :tenant and i.memory_type = m.memory_type and i.memory_id = m.memory_id
)

-- enter --
-- The next of them enter it, the oldest of their kind first; how many there were.
with entering as materialized (
  select m.memory_id from indexed_memories m
  where m.tenant_id = :tenant and m.memory_type = :kind and not exists (
    select from index_memories i
    where i.tenant_id = :tenant and i.memory_type = m.memory_type and i.memory_id = m.memory_id
  )
  order by m.created_at, m.memory_id
  limit :limit
),
entered as materialized (
  select enter_memory(:tenant, :kind, memory_id) from entering
)
select count(*) as number from entered

-- enter_people --
-- The names of the people a tenant knows enter the index.
select enter_names(:tenant, e.canonical_name::text || e.aliases) from entities e
where e.tenant_id = :tenant and e.entity_type = 'person'
order by e.id

-- act_for --
-- From here on only this tenant's rows exist, also for an owner whom the policies bind.
select set_config('butlers.tenant', :tenant, true)

-- tenants --
-- Every tenant there is.
select memory_tenant_names() as tenant

-- respell --
-- What a search finds these texts by is made anew.
update {noun}s set search_vector = text_search_vector(made.text)
from unnest(:ids::uuid[], :texts::text[]) as made (id, text)
where {noun}s.tenant_id = :tenant and {noun}s.id = made.id

-- foreign_texts --
-- Texts with letters beyond ASCII, whose words are told apart otherwise than before, in id order.
select id, text from (
  select 'episode' as kind, tenant_id, id, content as text, search_vector from episodes
  union all
  select 'fact', tenant_id, id, subject || ' ' || predicate || ' ' || content, search_vector
  from facts
  union all
  select 'rule', tenant_id, id, content, search_vector from rules
) written
where kind = :kind and tenant_id = :tenant and id > :after
  and search_vector is not null and octet_length(text) > length(text)
order by id
limit :limit
