-- index_inserted --
-- Trigger: a stored memory enters the index.
create or replace function index_inserted() returns trigger language plpgsql as $$
    {kind};
    begin
      perform add_to_index(new.tenant_id, kind, new.id);
      return null;
    end
    $$;

-- index_changed --
-- Trigger: copy what a search chooses by. A position once taken in a session stays.
create or replace function index_changed() returns trigger language plpgsql as $$
    declare
      kind text := rtrim(base_table_name(tg_table_name), 's');
      present indexed_memories;
      was index_memories;
    begin
      select m.* into present from indexed_memories m
      where m.tenant_id = new.tenant_id and m.memory_type = kind and m.memory_id = new.id;
      select i.* into was from index_memories i
      where i.tenant_id = new.tenant_id and i.memory_type = kind and i.memory_id = new.id;
      if present.place is null and present.session_id is not distinct from was.session_id then
        present.place := was.place;
      elsif present.place is null then
        present.place := last_position(
          present.tenant_id, present.session_id, was.doc < 0
        ) + 1;
      end if;
      update index_memories i
      set shown = present.shown, scope = present.scope, confidence = present.confidence,
        decay_rate = present.decay_rate, confirmed_at = present.confirmed_at,
        expires_at = present.expires_at, created_at = present.created_at, said_at = present.said_at,
        session_id = present.session_id, author = present.author, entity_id = present.entity_id,
        valid_from = present.valid_from, valid_to = present.valid_to, past = present.past,
        place = present.place
      where i.tenant_id = new.tenant_id and i.memory_type = kind and i.memory_id = new.id;
      return null;
    end
    $$;

-- index_reworded --
-- Trigger: replace the words of a reworded memory.
create or replace function index_reworded() returns trigger language plpgsql as $$
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
        perform add_words(
          new.tenant_id, number, new.search_vector, word_count(new.search_vector)
        );
      end if;
      return null;
    end
    $$;

-- index_embedded --
-- Trigger: replace the vectors of a memory.
create or replace function index_embedded() returns trigger language plpgsql as $$
    {kind};
    begin
      perform sync_vectors(new.tenant_id, kind, new.id);
      return null;
    end
    $$;

-- index_deleted --
-- Trigger: a deleted memory leaves the index with its words and vectors.
create or replace function index_deleted() returns trigger language plpgsql as $$
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

-- index_lifted --
-- Trigger: copy the confidence that a rule keeps by its maturity.
create or replace function index_lifted() returns trigger language plpgsql as $$
    begin
      update index_memories set confidence_floor = new.confidence_floor
      where tenant_id = new.tenant_id and memory_type = 'rule' and memory_id = new.id;
      return null;
    end
    $$;

-- index_kept --
-- Triggers: a vector aside counts like one in the row, until it is dropped.
do $$
declare
  noun text;
begin
  foreach noun in array array['episode', 'fact', 'rule'] loop
    execute format($create$
      create or replace function index_%1$s_kept() returns trigger language plpgsql as $body$
    begin
      perform sync_vectors(new.tenant_id, split_part(tg_table_name, '_', 1), new.%1$s_id);
      return null;
    end
    $body$;
      create or replace function index_%1$s_dropped() returns trigger language plpgsql as $body$
    begin
      perform sync_vectors(old.tenant_id, split_part(tg_table_name, '_', 1), old.%1$s_id);
      return null;
    end
    $body$
    $create$, noun);
  end loop;
end
$$;

-- index_person --
-- Triggers: index the names of a person, and of an author.
create or replace function index_person() returns trigger language plpgsql as $$
    begin
      perform add_names(new.tenant_id, new.canonical_name::text || new.aliases);
      return null;
    end
    $$;
create or replace function index_author() returns trigger language plpgsql as $$
    begin
      perform add_names(new.tenant_id, array[new.author]);
      return null;
    end
    $$;

-- watched --
-- The tables keep the index themselves, so that no flow can forget it. What gains or loses low trust
-- leaves the index and enters it under a number of the other side.
do $$
declare
  noun text;
begin
  foreach noun in array array['episode', 'fact', 'rule'] loop
    execute format($create$
      create trigger %1$ss_index_inserted after insert on %1$ss
      for each row execute function index_inserted();
      create trigger %1$ss_index_deleted after delete on %1$ss
      for each row execute function index_deleted();
      create trigger %1$ss_index_reworded after update of search_vector on %1$ss
      for each row when (old.search_vector is distinct from new.search_vector)
      execute function index_reworded();
      create trigger %1$ss_index_embedded after update of embedding, embedding_version_id on %1$ss
      for each row when (
        old.embedding_version_id is distinct from new.embedding_version_id
        or old.embedding is distinct from new.embedding
      )
      execute function index_embedded();
      create trigger %1$ss_index_released after update of quarantined on %1$ss
      for each row when (old.quarantined is distinct from new.quarantined)
      execute function index_changed();
      create trigger %1$ss_index_trusted_first after update of trust on %1$ss
      for each row when ((old.trust = 0) <> (new.trust = 0)) execute function index_deleted();
      create trigger %1$ss_index_trusted_second after update of trust on %1$ss
      for each row when ((old.trust = 0) <> (new.trust = 0)) execute function index_inserted();
      create trigger %1$ss_index_trusted_third after update of trust on %1$ss
      for each row when ((old.trust = 0) <> (new.trust = 0)) execute function index_changed();
      create trigger %1$s_vectors_index_kept after insert on %1$s_vectors
      for each row execute function index_%1$s_kept();
      create trigger %1$s_vectors_index_dropped after delete on %1$s_vectors
      for each row execute function index_%1$s_dropped();
      create trigger %1$ss_note_tenant after insert on %1$ss referencing new table as inserted
      for each statement execute function note_tenants()
    $create$, noun);
  end loop;
end
$$;
create trigger entities_note_tenant after insert on entities referencing new table as inserted
for each statement execute function note_tenants();

-- chosen_by --
-- Only columns that a search chooses by are worth a write: counting a use changes none of them.
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
create trigger facts_index_windowed after insert on facts
for each row when (
  new.valid_from is not null or new.valid_to is not null or new.validity <> 'active'
)
execute function index_changed();
create trigger facts_index_moved after update of valid_from, valid_to on facts
for each row when (
  (old.valid_from, old.valid_to) is distinct from (new.valid_from, new.valid_to)
  and old.validity = new.validity
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
create trigger rules_index_lifted after insert on rules
for each row when (new.confidence_floor > 0) execute function index_lifted();
create trigger rules_index_moved after update of maturity, confidence on rules
for each row when (old.confidence_floor is distinct from new.confidence_floor)
execute function index_lifted();
create trigger rules_index_trusted_then_lifted after update of trust on rules
for each row when ((old.trust = 0) <> (new.trust = 0)) execute function index_lifted();
create trigger entities_index_named after insert or update of canonical_name, aliases, entity_type
on entities for each row when (new.entity_type = 'person' and new.trust > 0)
execute function index_person();
create trigger episodes_index_author after update of author on episodes
for each row when (old.author is distinct from new.author and new.trust > 0)
execute function index_author();
create trigger facts_index_author after update of author on facts
for each row when (old.author is distinct from new.author and new.trust > 0)
execute function index_author();
