-- {proposal} --
-- A whole proposal.
id, butler, kind, target_type, target_id, proposed, source_episode_ids, reason, status, created_at,
  proposed_by, decided_at, decided_by

-- insert --
-- A new proposal; what was proposed before from the same episodes is left as it is.
insert into memory_proposals
  (tenant_id, id, butler, kind, target_type, target_id, proposed, source_episode_ids, reason,
   idempotency_key, created_at, proposed_by)
values
  (:tenant_id, :id, :butler, :kind, :target_type, :target_id, :proposed, :source_episode_ids,
   :reason, :idempotency_key, :now, :proposed_by)
on conflict (tenant_id, idempotency_key) do nothing

-- get_by_idempotency_key --
-- What became of what was proposed under a key.
select id, status from memory_proposals
where tenant_id = :tenant_id and idempotency_key = :idempotency_key

-- find_waiting --
-- What waits for a yes, oldest first, with what the memory it is about says now.
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

-- count_waiting --
-- How many wait for a yes.
select count(*) from memory_proposals where tenant_id = :tenant_id and status = 'waiting'

-- hold --
-- One that waits, kept from everybody else until the transaction ends.
select {proposal} from memory_proposals
where tenant_id = :tenant_id and id = :id and status = 'waiting'
for update

-- decide --
-- A proposal was decided.
update memory_proposals set status = :status, decided_at = :now, decided_by = :decided_by
where tenant_id = :tenant_id and id = :id
