-- columns_of --
-- The columns of a table that are taken along.
select portable_columns(:kind)

-- projects --
-- Every row of the projects, as JSON without what is not taken along.
select (to_jsonb(t) - (select local_columns('projects')))::text as row
from projects t
where t.tenant_id = :tenant_id
order by t.created_at, t.id

-- entities --
-- Every row of the entities, as JSON without what is not taken along.
select (to_jsonb(t) - (select local_columns('entities')))::text as row
from entities t
where t.tenant_id = :tenant_id
order by t.created_at, t.id

-- episodes --
-- Every row of the episodes, as JSON without what is not taken along.
select (to_jsonb(t) - (select local_columns('episodes')))::text as row
from episodes t
where t.tenant_id = :tenant_id
order by t.created_at, t.id

-- facts --
-- Every row of the facts, as JSON without what is not taken along.
select (to_jsonb(t) - (select local_columns('facts')))::text as row
from facts t
where t.tenant_id = :tenant_id
order by t.created_at, t.id

-- rules --
-- Every row of the rules, as JSON without what is not taken along.
select (to_jsonb(t) - (select local_columns('rules')))::text as row
from rules t
where t.tenant_id = :tenant_id
order by t.created_at, t.id

-- memory_links --
-- Every row of the links, as JSON without what is not taken along.
select (to_jsonb(t) - (select local_columns('memory_links')))::text as row
from memory_links t
where t.tenant_id = :tenant_id
order by t.created_at, t.source_type, t.source_id, t.target_type, t.target_id

-- rule_applications --
-- Every row of the applications of rules, as JSON without what is not taken along.
select (to_jsonb(t) - (select local_columns('rule_applications')))::text as row
from rule_applications t
where t.tenant_id = :tenant_id
order by t.created_at, t.id

-- memory_proposals --
-- Every row of the proposals, as JSON without what is not taken along.
select (to_jsonb(t) - (select local_columns('memory_proposals')))::text as row
from memory_proposals t
where t.tenant_id = :tenant_id
order by t.created_at, t.id

-- memory_conflicts --
-- Every row of the conflicts, as JSON without what is not taken along.
select (to_jsonb(t) - (select local_columns('memory_conflicts')))::text as row
from memory_conflicts t
where t.tenant_id = :tenant_id
order by t.created_at, t.id

-- memory_predicates --
-- Every row of the predicates, as JSON without what is not taken along.
select (to_jsonb(t) - (select local_columns('memory_predicates')))::text as row
from memory_predicates t
where t.tenant_id = :tenant_id
order by t.created_at, t.predicate

-- binned_episodes --
-- Every row of the episodes in the bin; these say inside too whose they are.
select (
  to_jsonb(t) - (select local_columns('binned_episodes'))
  || jsonb_build_object('episode', t.episode - 'tenant_id')
)::text as row
from binned_episodes t
where t.tenant_id = :tenant_id
order by t.binned_at, t.episode_id

-- memory_events --
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
