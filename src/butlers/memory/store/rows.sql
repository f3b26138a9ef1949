-- {table}: projects, entities, episodes, facts, rules, rule_applications, memory_proposals, memory_conflicts --
-- read_{table} --
-- Every row of a table as JSON, without columns that an export leaves out.
select (to_jsonb(t) - (select local_columns('{table}')))::text as row
from {table} t
where t.tenant_id = :tenant_id
order by t.created_at, t.id

-- columns_of --
-- The columns of a table that are taken along.
select portable_columns(:kind)

-- {keyed}: memory_links, memory_predicates --
-- read_{keyed} --
-- Every row of a table without an id, ordered by its own columns.
select (to_jsonb(t) - (select local_columns('{keyed}')))::text as row
from {keyed} t
where t.tenant_id = :tenant_id
order by t.created_at, t

-- read_binned_episodes --
-- Every row of the episodes in the bin; these say inside too whose they are.
select (
  to_jsonb(t) - (select local_columns('binned_episodes'))
  || jsonb_build_object('episode', t.episode - 'tenant_id')
)::text as row
from binned_episodes t
where t.tenant_id = :tenant_id
order by t.binned_at, t.episode_id

-- read_memory_events --
-- Every row of the events, in the order they happened, as JSON without what is not taken along.
select (to_jsonb(t) - (select local_columns('memory_events')))::text as row
from memory_events t
where t.tenant_id = :tenant_id
order by t.sequence

-- bring --
-- Rows enter a table; how many were not there.
select import_rows(:kind, :tenant_id, :rows::text::jsonb)

-- bring_events --
-- Events enter the audit stream as they were told elsewhere; how many were not there.
select import_events(:tenant_id, :rows::text::jsonb)

-- erase --
-- Rows of a table are deleted, with what is told of them alone; how many.
select erase_rows(:tenant_id, :kind, :keys::text[])

-- erase_predicates --
-- What was told of these predicates is gone.
delete from memory_predicates where tenant_id = :tenant_id and predicate = any(:keys::text[])

-- erase_names --
-- The words of names leave the index; how many.
select erase_names(:tenant_id, :names::text[])

-- erase_events --
-- What events say is replaced by its hash; how many.
select erase_event_texts(:tenant_id, :ids::uuid[])

-- reword_entity --
-- An entity with other names and notes.
update entities set aliases = :aliases, metadata = :metadata
where tenant_id = :tenant_id and id = :id::uuid

-- reword_rule --
-- A rule with other notes.
update rules set tags = :tags, metadata = :metadata
where tenant_id = :tenant_id and id = :id::uuid

-- reword_project --
-- A project that is known by other words.
update projects set name = :name, keys = :keys, places = :places
where tenant_id = :tenant_id and id = :id

-- find_links --
-- What was drawn from what.
select source_type, source_id, target_type, target_id
from memory_links
where tenant_id = :tenant_id and relation = 'derived_from'
order by source_type, source_id, target_type, target_id

-- forget_claims --
-- What agents were shown to read is claimed no more.
delete from memory_claims where tenant_id = :tenant_id

-- known_keys --
-- Which of these keys something is stored under.
select idempotency_key from episodes
where tenant_id = :tenant_id and idempotency_key = any(:keys)
union
select idempotency_key from facts where tenant_id = :tenant_id and idempotency_key = any(:keys)
union
select idempotency_key from rules where tenant_id = :tenant_id and idempotency_key = any(:keys)
order by 1
