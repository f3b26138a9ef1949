-- {proposal} --
-- The columns of a proposal that readers get.
id, butler, kind, target_type, target_id, proposed, source_episode_ids, reason, status, created_at,
  proposed_by, decided_at, decided_by

-- insert --
-- Insert a proposal; one that the same episodes led to before is left as it is.
insert into memory_proposals
  (tenant_id, id, butler, kind, target_type, target_id, proposed, source_episode_ids, reason,
   idempotency_key, created_at, proposed_by)
values
  (:tenant_id, :id, :butler, :kind, :target_type, :target_id, :proposed, :source_episode_ids,
   :reason, :idempotency_key, :now, :proposed_by)
on conflict (tenant_id, idempotency_key) do nothing

-- get_by_idempotency_key --
-- Load the state of the proposal with an idempotency key.
select id, status from memory_proposals
where tenant_id = :tenant_id and idempotency_key = :idempotency_key

-- find_waiting --
-- Find proposals that wait, oldest first, with the present text of their target.
select {proposal}, coalesce(
    (select content from facts f
     where f.tenant_id = :tenant_id and f.id = p.target_id and p.target_type = 'fact'),
    (select content from rules r
     where r.tenant_id = :tenant_id and r.id = p.target_id and p.target_type = 'rule')
  ) as content_now
from memory_proposals p
where tenant_id = :tenant_id and status = 'waiting'
order by created_at, id
limit :limit

-- lock --
-- Lock a proposal that waits until the transaction ends.
select {proposal} from memory_proposals
where tenant_id = :tenant_id and id = :id and status = 'waiting'
for update

-- decide --
-- Record the decision on a proposal.
update memory_proposals set status = :status, decided_at = :now, decided_by = :decided_by
where tenant_id = :tenant_id and id = :id

-- insert_claim --
-- Insert a claim: the episodes, and what the agent was shown with them.
insert into memory_claims
  (tenant_id, id, butler, episode_ids, fact_ids, rule_ids, entity_ids, created_at)
values (:tenant_id, :id, :butler, :episode_ids, :fact_ids, :rule_ids, :entity_ids, :now)

-- delete_claims --
-- Delete the claims made before a time; all of them without one.
delete from memory_claims
where tenant_id = :tenant_id and created_at < coalesce(:before::timestamptz, 'infinity')

-- get_claim --
-- Load a claim.
select id, butler, episode_ids, fact_ids, rule_ids, entity_ids from memory_claims
where tenant_id = :tenant_id and id = :id

-- find_claimed_episodes --
-- Find the claimed episodes that are still leased, in the order they were shown.
select id, content, importance, created_at, author from episodes
where tenant_id = :tenant_id and id = any(:ids) and leased_by = :run_id
order by array_position(:ids::uuid[], id)

-- find_claimed_entities --
-- Find the active entities of a claim, in the order they were shown.
select id, canonical_name, entity_type, aliases,
  metadata ->> 'scope' is not distinct from 'global' as is_known_to_all
from entities
where tenant_id = :tenant_id and id = any(:ids) and entity_state(metadata) = 'active'
order by array_position(:ids::uuid[], id)
