-- entities --
-- How far who created an entity is trusted; of older ones it is not known.
alter table entities add column trust smallint not null default 4,
  add constraint entities_trust check (trust between 0 and 4);

-- functions --
-- Functions that are about to have one parameter more: a call with fewer must not fit both. An older
-- database does not have them yet.
drop function if exists find_candidates(
  text, uuid, text, text, vector, vector, text[], text, float, timestamptz, timestamptz, timestamptz,
  integer, bigint, bigint, bigint, integer, text, bigint[], bigint[], float[], bigint[]
);
drop function if exists matching_filtered(
  text, query_terms, text[], text, float, timestamptz, timestamptz, timestamptz, integer
);
drop function if exists nearest_filtered(
  text, uuid, halfvec, text[], text, float, timestamptz, timestamptz, timestamptz, integer
);
drop function if exists nearest_memories(text, uuid, halfvec, integer, boolean);
drop function if exists nearest_indexed(text, uuid, halfvec, integer);
drop function if exists nearest_exact(text, uuid, halfvec, integer);
drop function if exists matching_memories(text, query_terms, integer);
drop function if exists matching_above(text, query_terms, integer, float);
drop function if exists score_rare_words(text, query_terms, text[], float[], float, float);
drop function if exists sampled_score(text, query_terms, integer);
drop function if exists similar_word_postings(text, query_terms);
drop function if exists postings_of_word(text, text, float);
drop function if exists word_scores(text, query_terms);
drop function if exists query_terms(text, text[], bigint);
drop function if exists document_frequency(text, text);
drop function if exists similar_words(text, text);
drop function if exists words_with_prefix(text, text, integer);
drop function if exists last_position(text, uuid);

-- renumbered --
-- Give the index's rows of low trust negative numbers. Row-level security would hide them from an
-- owner that is no superuser.
do $$
declare
  name text;
  guarded constant text[] := array[
    'episodes', 'facts', 'rules', 'embedding_versions', 'index_memories', 'index_words', 'index_vectors'
  ];
  low record;
  was index_memories;
begin
  foreach name in array guarded loop
    execute format('alter table %I no force row level security', name);
  end loop;
  for low in
    select tenant_id, 'episode' as kind, id, search_vector from episodes where trust = 0
    union all
    select tenant_id, 'fact', id, search_vector from facts where trust = 0
    union all
    select tenant_id, 'rule', id, search_vector from rules where trust = 0
  loop
    delete from index_memories
    where tenant_id = low.tenant_id and memory_type = low.kind and memory_id = low.id
    returning * into was;
    update index_words set doc = -doc
    where tenant_id = low.tenant_id and doc = was.doc
      and word = any(tsvector_to_array(low.search_vector));
    update index_vectors set doc = -doc
    where tenant_id = low.tenant_id and doc = was.doc
      and version_id in (select e.id from embedding_versions e where e.tenant_id = low.tenant_id);
    was.doc := -was.doc;
    insert into index_memories overriding system value values (was.*);
  end loop;
  foreach name in array guarded loop
    execute format('alter table %I force row level security', name);
  end loop;
end
$$;

-- triggers --
-- What gains or loses low trust changes sides; low trust adds no name to the names of questions.
do $$
declare
  noun text;
begin
  foreach noun in array array['episode', 'fact', 'rule'] loop
    execute format($create$
      create trigger %1$ss_index_trusted_first after update of trust on %1$ss
      for each row when ((old.trust = 0) <> (new.trust = 0)) execute function index_deleted();
      create trigger %1$ss_index_trusted_second after update of trust on %1$ss
      for each row when ((old.trust = 0) <> (new.trust = 0)) execute function index_inserted();
      create trigger %1$ss_index_trusted_third after update of trust on %1$ss
      for each row when ((old.trust = 0) <> (new.trust = 0)) execute function index_changed()
    $create$, noun);
  end loop;
end
$$;
create trigger rules_index_trusted_then_lifted after update of trust on rules
for each row when ((old.trust = 0) <> (new.trust = 0)) execute function index_lifted();
drop trigger entities_index_named on entities;
create trigger entities_index_named after insert or update of canonical_name, aliases, entity_type
on entities for each row when (new.entity_type = 'person' and new.trust > 0)
execute function index_person();
drop trigger episodes_index_author on episodes;
create trigger episodes_index_author after update of author on episodes
for each row when (old.author is distinct from new.author and new.trust > 0)
execute function index_author();
drop trigger facts_index_author on facts;
create trigger facts_index_author after update of author on facts
for each row when (old.author is distinct from new.author and new.trust > 0)
execute function index_author();
