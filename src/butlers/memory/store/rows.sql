-- {table}: projects, entities, episodes, facts, rules, rule_applications, memory_proposals, memory_conflicts --
-- read_{table} --
-- Every row of a table as JSON, without columns that an export leaves out.
select (to_jsonb(t) - (select local_columns('{table}')))::text as row
from {table} t
where t.tenant_id = :tenant_id
order by t.created_at, t.id

-- columns_of --
-- The columns of a table that an export has.
select portable_columns(:kind)

-- {keyed}: memory_links, memory_predicates --
-- read_{keyed} --
-- Every row of a table without an id, ordered by its own columns.
select (to_jsonb(t) - (select local_columns('{keyed}')))::text as row
from {keyed} t
where t.tenant_id = :tenant_id
order by t.created_at, t

-- read_binned_episodes --
-- Every row of the bin as JSON; the episode inside loses its tenant too.
select (
  to_jsonb(t) - (select local_columns('binned_episodes'))
  || jsonb_build_object('episode', t.episode - 'tenant_id')
)::text as row
from binned_episodes t
where t.tenant_id = :tenant_id
order by t.binned_at, t.episode_id

-- read_memory_events --
-- Every event as JSON, in order.
select (to_jsonb(t) - (select local_columns('memory_events')))::text as row
from memory_events t
where t.tenant_id = :tenant_id
order by t.sequence

-- bring --
-- Import rows into a table; return how many were new.
select import_rows(:kind, :tenant_id, :rows::text::jsonb)

-- bring_events --
-- Import events; return how many were new.
select import_events(:tenant_id, :rows::text::jsonb)

-- erase --
-- Delete rows of a table and what refers to them; return how many.
select erase_rows(:tenant_id, :kind, :keys::text[])

-- erase_predicates --
-- Delete what is known of predicates.
delete from memory_predicates where tenant_id = :tenant_id and predicate = any(:keys::text[])

-- erase_names --
-- Delete the words of names from the index; return how many.
select erase_names(:tenant_id, :names::text[])

-- erase_events --
-- Replace texts in events by their hashes; return how many events changed.
select erase_event_texts(:tenant_id, :ids::uuid[])

-- reword_entity --
-- Set the aliases and metadata of an entity.
update entities set aliases = :aliases, metadata = :metadata
where tenant_id = :tenant_id and id = :id::uuid

-- reword_rule --
-- Set the tags and metadata of a rule.
update rules set tags = :tags, metadata = :metadata
where tenant_id = :tenant_id and id = :id::uuid

-- reword_project --
-- Set the name, keys and places of a project.
update projects set name = :name, keys = :keys, places = :places
where tenant_id = :tenant_id and id = :id

-- find_links --
-- Find what was drawn from what.
select source_type, source_id, target_type, target_id
from memory_links
where tenant_id = :tenant_id and relation = 'derived_from'
order by source_type, source_id, target_type, target_id

-- known_keys --
-- Find which of these idempotency keys are in use.
select idempotency_key from episodes
where tenant_id = :tenant_id and idempotency_key = any(:keys)
union
select idempotency_key from facts where tenant_id = :tenant_id and idempotency_key = any(:keys)
union
select idempotency_key from rules where tenant_id = :tenant_id and idempotency_key = any(:keys)
order by 1
