-- insert --
-- What an agent was shown.
insert into memory_claims
  (tenant_id, id, butler, episode_ids, fact_ids, rule_ids, entity_ids, created_at)
values (:tenant_id, :id, :butler, :episode_ids, :fact_ids, :rule_ids, :entity_ids, :now)

-- forget --
-- Nobody comes back for a claim that old.
delete from memory_claims where tenant_id = :tenant_id and created_at < :before

-- get --
-- One claim.
select id, butler, episode_ids, fact_ids, rule_ids, entity_ids from memory_claims
where tenant_id = :tenant_id and id = :id

-- find_episodes --
-- The claimed episodes that are still held, in the order they were shown.
select id, content, importance, created_at, author from episodes
where tenant_id = :tenant_id and id = any(:ids) and leased_by = :run_id
order by array_position(:ids::uuid[], id)

-- find_facts --
-- The facts that were shown and still hold, in the order they were shown.
select id, subject, predicate, content, scope, entity_id, permanence, importance, tags
from facts
where tenant_id = :tenant_id and id = any(:ids) and validity = 'active'
order by array_position(:ids::uuid[], id)

-- find_rules --
-- The rules that were shown and are still in use, in the order they were shown.
select id, content, maturity
from rules
where tenant_id = :tenant_id and id = any(:ids) and rule_state(metadata) <> 'forgotten'
  and quarantined is null
order by array_position(:ids::uuid[], id)

-- find_entities --
-- The entities that were shown and still live, in the order they were shown.
select id, canonical_name, entity_type, aliases,
  metadata ->> 'scope' is not distinct from 'global' as is_known_to_all
from entities
where tenant_id = :tenant_id and id = any(:ids) and entity_state(metadata) = 'active'
order by array_position(:ids::uuid[], id)
