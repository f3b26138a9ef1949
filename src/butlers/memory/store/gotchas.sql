-- find_gotchas --
-- Current rules, facts and decisions of visible scopes whose text matches a pattern, newest first;
-- what has low trust last.
select memory_type, id, subject, predicate, content, effective_confidence, maturity,
  effectiveness_score, said_at, origin, trust, agent, accepted_by, piece, own_marks, in_doubt, metadata
from (
  select 'rule' as memory_type, id, '' as subject, '' as predicate, content,
    {rule_confidence} as effective_confidence, maturity, effectiveness_score, created_at as said_at,
    origin, trust, agent, accepted_by, null as piece,
    has_only_own_reports(tenant_id, id, stored_by) as own_marks,
    in_doubt(tenant_id, 'rule', id, :now, null, null) as in_doubt, metadata
  from rules
  where tenant_id = :tenant_id and is_visible_scope(scope, :scope) and content ~* :pattern
    and rule_state(metadata) <> 'forgotten' and quarantined is null
  union all
  select 'fact', id, subject, predicate, content, {fact_confidence}, '', 0.0,
    coalesce(said_at, created_at), origin, trust, agent, accepted_by, null, false,
    in_doubt(tenant_id, 'fact', id, :now, null, null), null
  from facts
  where tenant_id = :tenant_id and is_visible_scope(scope, :scope)
    and validity = 'active' and is_fact_valid(facts, :now, null, null)
    and concat_ws(' ', subject, predicate, content) ~* :pattern
  union all
  select 'episode', id, '', '', content, 1.0, '', 0.0, coalesce(said_at, created_at), origin, trust,
    agent, accepted_by, piece, false, null::uuid[], null
  from episodes
  where tenant_id = :tenant_id and piece = 'decision' and content ~* :pattern
    and (:scope::text is null or is_named_scope(butler, :scope))
    and episode_state(expires_at, :now, quarantined) = 'active'
    and outdated_by(:tenant_id, id, :now, null, null) is null
) gotchas
where effective_confidence >= :least
order by trust = 0, memory_type = 'rule' desc, trust desc, not {from_person}, said_at desc, id
limit :limit

-- find_failures --
-- The newest failures of visible scopes of which a fix is known, those of low trust last.
select id, content, metadata ->> 'command' as command, metadata ->> 'error' as error,
  metadata ->> 'fix' as fix, coalesce(said_at, created_at) as said_at, origin, trust,
  agent, accepted_by, piece
from episodes
where tenant_id = :tenant_id and piece = 'failure'
  and (:scope::text is null or is_named_scope(butler, :scope))
  and episode_state(expires_at, :now, quarantined) = 'active'
  and metadata ->> 'fix' <> '' and metadata ->> 'error' <> ''
order by trust = 0, created_at desc, id
limit :limit
