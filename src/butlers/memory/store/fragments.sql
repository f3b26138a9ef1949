-- {provenance} --
-- Who said a memory, how far that is trusted, who stored it, and why it is held, if it is.
origin, trust, stored_by, quarantined

-- {fact_details} --
-- What a reader is told of a fact beside what it says.
importance, confidence, decay_rate, permanence, source_butler, source_episode_id, supersedes_id,
  entity_id, validity, fact_state(validity, metadata) as state, scope, valid_from, valid_to,
  reference_count, created_at, last_referenced_at, last_confirmed_at, session_id, place, author,
  said_at, {provenance}, tags, metadata,
  effective_confidence(confidence, decay_rate, last_confirmed_at, :now) as effective_confidence

-- {fact} --
-- A whole fact.
id, tenant_id, subject, predicate, content, {fact_details},
  in_doubt(tenant_id, 'fact', id, :now, null, null) as in_doubt

-- {rule_confidence} --
-- What is left of a rule's confidence now.
effective_confidence(confidence, decay_rate, last_confirmed_at, :now, confidence_floor)

-- {rule_details} --
-- What a reader is told of a rule beside what it says.
scope, maturity, confidence, decay_rate, permanence, effectiveness_score, applied_count,
  success_count, harmful_count, source_episode_id, source_butler, created_at, last_applied_at,
  last_evaluated_at, last_confirmed_at, reference_count, last_referenced_at, {provenance},
  has_own_marks(tenant_id, id, stored_by) as own_marks, tags, metadata,
  rule_state(metadata, quarantined) as state, confidence_floor,
  {rule_confidence} as effective_confidence,
  in_doubt(tenant_id, 'rule', id, :now, null, null) as in_doubt

-- {rule} --
-- A whole rule.
id, tenant_id, content, {rule_details}

-- {episode_details} --
-- What a reader is told of an episode beside what it says.
importance, reference_count, consolidated, consolidation_status, consolidation_attempts,
  last_consolidation_error, next_consolidation_retry_at, dead_letter_reason, created_at,
  last_referenced_at, expires_at, place, author, said_at, {provenance}, metadata

-- {episode} --
-- A whole episode.
id, tenant_id, butler, session_id, content, retry_count, last_error, {episode_details},
  outdated_by(tenant_id, id, :now, null, null) as outdated_by

-- {entity} --
-- A whole entity.
id, canonical_name, entity_type, aliases, metadata, created_at, updated_at

-- {event} --
-- One line of the audit stream as it is read.
id, event_type, actor, request_id, memory_type, memory_id, payload, created_at

-- {link} --
-- The columns of a link as it is written.
tenant_id, source_type, source_id, target_type, target_id, relation, created_at
