-- find --
-- Find memories in quarantine, oldest first.
select memory_type, id, content, subject, predicate, quarantined as reason, origin, trust,
  stored_by, scope, created_at
from {held}
order by created_at, id
limit :limit

-- get --
-- Load a memory in quarantine.
select memory_type, id, content, subject, predicate, 'quarantined' as state, quarantined as why,
  origin, trust, stored_by, scope, created_at
from {held}
where id = :id

-- lock_fact --
-- Lock a fact in quarantine until the transaction ends.
select scope, predicate, subject, entity_id, content, said_at, valid_from, valid_to from facts
where tenant_id = :tenant_id and id = :id and validity = 'quarantined'
for update

-- release_fact --
-- Release a fact from quarantine; it may supersede another.
update facts
set validity = 'active', quarantined = null, accepted_by = :accepted_by,
  supersedes_id = :supersedes_id,
  last_confirmed_at = :now, valid_from = :valid_from, valid_to = :valid_to
where tenant_id = :tenant_id and id = :id and validity = 'quarantined'

-- release_rule --
-- Release a rule from quarantine.
update rules
set quarantined = null, accepted_by = :accepted_by, last_confirmed_at = :now
where tenant_id = :tenant_id and id = :id and quarantined is not null
  and rule_state(metadata) <> 'forgotten'

-- release_episode --
-- Release an episode and its pieces from quarantine.
update episodes set quarantined = null, accepted_by = :accepted_by
where tenant_id = :tenant_id and (id = :id or piece is not null and metadata ->> 'part' = :id::text)
  and quarantined is not null
  and episode_state(expires_at, :now) <> 'expired'

-- is_quarantined --
-- Whether a memory is in quarantine.
select true from {held} where id = :id
