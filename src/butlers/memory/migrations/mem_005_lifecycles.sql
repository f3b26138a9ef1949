-- attempts --
-- How often consolidation was tried, why it failed, when it is due again and who holds it now.
alter table episodes
add column consolidation_attempts integer not null default 0,
add column last_consolidation_error text,
add column next_consolidation_retry_at timestamptz,
add column leased_until timestamptz,
add column leased_by text,
add column dead_letter_reason text;
update episodes
set consolidation_attempts = greatest(retry_count, 0), last_consolidation_error = last_error;
alter table episodes drop column retry_count, drop column last_error;

-- older_names --
-- Both names tell one truth: the older ones are derived.
alter table episodes
add column retry_count integer generated always as (consolidation_attempts) stored,
add column last_error text generated always as (last_consolidation_error) stored;

-- forgotten --
-- A fact that was forgotten is retracted.
update facts set validity = 'retracted' where validity = 'forgotten';

-- fading --
-- Fading is a note on an active fact, so it too takes part in the rule of one per key.
update facts set validity = 'superseded'
where id in (
  select id from (
    select id, row_number() over (
      partition by tenant_id, scope, predicate, entity_id,
        case when entity_id is null then subject end
      order by created_at desc, id
    ) as place
    from facts where validity in ('active', 'fading')
  ) ranked
  where place > 1
);
update facts set validity = 'active', metadata = metadata || '{"status": "fading"}'
where validity = 'fading';

-- consolidated --
-- Flag, status and reason of an episode agree.
update episodes set consolidation_status = 'consolidated'
where consolidated and consolidation_status <> 'consolidated';
update episodes set consolidated = true
where not consolidated and consolidation_status = 'consolidated';
update episodes set dead_letter_reason = coalesce(last_consolidation_error, 'unknown')
where consolidation_status = 'dead_letter';

-- in_range --
-- Nothing checked these before; a value outside its range counts as the nearest one inside.
update episodes set importance = least(greatest(importance, 0), 10)
where importance not between 0 and 10;
update facts set importance = least(greatest(importance, 0), 10),
  confidence = least(greatest(confidence, 0), 1), decay_rate = greatest(decay_rate, 0)
where importance not between 0 and 10 or confidence not between 0 and 1 or decay_rate < 0;
update rules set confidence = least(greatest(confidence, 0), 1),
  decay_rate = greatest(decay_rate, 0)
where confidence not between 0 and 1 or decay_rate < 0;
update rules set success_count = greatest(success_count, 0),
  harmful_count = greatest(harmful_count, 0),
  applied_count = greatest(
    applied_count, greatest(success_count, 0) + greatest(harmful_count, 0)
  )
where applied_count < success_count + harmful_count or least(success_count, harmful_count) < 0;
update facts set supersedes_id = null where supersedes_id = id;

-- checks --
-- A state outside its vocabulary cannot be stored.
alter table episodes
add constraint episodes_consolidation_status
  check (consolidation_status in ('pending', 'consolidated', 'failed', 'dead_letter')),
add constraint episodes_consolidated_agrees
  check (consolidated = (consolidation_status = 'consolidated')),
add constraint episodes_dead_letter_has_reason
  check ((consolidation_status = 'dead_letter') = (dead_letter_reason is not null)),
add constraint episodes_lease_is_whole check ((leased_until is null) = (leased_by is null)),
add constraint episodes_attempts check (consolidation_attempts >= 0),
add constraint episodes_importance check (importance between 0 and 10);
alter table facts
add constraint facts_validity
  check (validity in ('active', 'superseded', 'expired', 'retracted')),
add constraint facts_permanence
  check (permanence in ('permanent', 'stable', 'standard', 'volatile', 'ephemeral')),
add constraint facts_confidence check (confidence between 0 and 1),
add constraint facts_importance check (importance between 0 and 10),
add constraint facts_decay_rate check (decay_rate >= 0),
add constraint facts_not_its_own_successor check (supersedes_id <> id);
alter table rules
add constraint rules_maturity
  check (maturity in ('candidate', 'established', 'proven', 'anti_pattern')),
add constraint rules_permanence
  check (permanence in ('permanent', 'stable', 'standard', 'volatile', 'ephemeral')),
add constraint rules_confidence check (confidence between 0 and 1),
add constraint rules_decay_rate check (decay_rate >= 0),
add constraint rules_counts check (
  success_count >= 0 and harmful_count >= 0 and applied_count >= success_count + harmful_count
);
alter table memory_links
add constraint memory_links_source_type check (source_type in ('episode', 'fact', 'rule')),
add constraint memory_links_target_type check (target_type in ('episode', 'fact', 'rule')),
add constraint memory_links_not_to_itself
  check ((source_type, source_id) <> (target_type, target_id));
