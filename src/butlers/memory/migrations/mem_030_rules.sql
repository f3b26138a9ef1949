-- floors --
-- What a rule keeps of its confidence by its maturity, however long nobody confirms it: an
-- established one is not forgotten, a proven one is still told, a warning does not fade.
alter table rules
add column confidence_floor float not null generated always as (
  confidence * case maturity
    when 'established' then 0.2
    when 'proven' then 0.5
    when 'anti_pattern' then 1.0
    else 0.0
  end
) stored;

-- effective_confidence --
-- The same of what keeps some of its confidence.
create function effective_confidence(
  confidence float, decay_rate float, confirmed_at timestamptz, at timestamptz, floor float
) returns float
language sql immutable parallel safe
return greatest(floor, effective_confidence(confidence, decay_rate, confirmed_at, at));

-- index --
-- The index knows what a rule keeps.
alter table index_memories add column confidence_floor float not null default 0.0;
create or replace view indexed_memories with (security_invoker = true) as
select tenant_id, 'episode' as memory_type, id as memory_id, quarantined is null as shown,
  butler as scope, 1.0::float as confidence, 0.0::float as decay_rate,
  null::timestamptz as confirmed_at, expires_at, created_at, said_at, session_id, place, author,
  null::uuid as entity_id, search_vector, null::timestamptz as valid_from,
  null::timestamptz as valid_to, false as past, 0.0::float as confidence_floor
from episodes
union all
select tenant_id, 'fact', id, validity = 'active', scope, confidence, decay_rate,
  last_confirmed_at, null, created_at, said_at, session_id, place, author, entity_id,
  search_vector, valid_from, valid_to, validity in ('superseded', 'expired'), 0.0
from facts
union all
select tenant_id, 'rule', id, quarantined is null and rule_state(metadata) <> 'forgotten', scope,
  confidence, decay_rate, last_confirmed_at, null, created_at, null, null, null, null, null,
  search_vector, null, null, false, confidence_floor
from rules;

-- lifted --
-- A rule that rises or falls does so in the index at once.
create function index_lifted() returns trigger language plpgsql as $$
    begin
      update index_memories set confidence_floor = new.confidence_floor
      where tenant_id = new.tenant_id and memory_type = 'rule' and memory_id = new.id;
      return null;
    end
    $$;
create trigger rules_index_lifted after insert on rules
for each row when (new.confidence_floor > 0) execute function index_lifted();
create trigger rules_index_moved after update of maturity, confidence on rules
for each row when (old.confidence_floor is distinct from new.confidence_floor)
execute function index_lifted();

-- is_found --
-- Whether a search may show a memory of the index: of the kinds wanted, seen from where it is asked
-- (an episode from its own scope alone), sure enough, and holding at the time that is asked for.
create or replace function is_found(
  m index_memories, types text[], by_scope text, least_confidence float, at timestamptz,
  as_of timestamptz, known_at timestamptz
) returns boolean
language sql stable
return (m).memory_type = any(types)
  and case
    when (m).memory_type = 'episode' then by_scope is null or is_asked((m).scope, by_scope)
    else is_seen((m).scope, by_scope)
  end
  and effective_confidence(
    (m).confidence, (m).decay_rate, (m).confirmed_at, coalesce(as_of, known_at, at),
    (m).confidence_floor
  ) >= least_confidence
  and case
    when known_at is not null then was_known(m, coalesce(as_of, known_at), known_at)
    when as_of is not null then held_then(m, at, as_of)
    else (m).shown and holds((m).valid_from, (m).valid_to, at)
      and episode_state((m).expires_at, at) <> 'expired'
  end;

-- tell_memories --
-- Memories as their readers get them, whatever their kind; none that is in quarantine.
create or replace function tell_memories(tenant text, types text[], ids uuid[], at timestamptz)
returns table (memory_type text, id uuid, told jsonb)
language plpgsql as $$
    begin
      perform set_config('butlers.tenant', tenant, true);
      return query
      select 'episode', e.id, to_jsonb(e) from (
        select m.id, m.tenant_id, m.butler, m.session_id, m.content, m.retry_count, m.last_error,
          m.importance, m.reference_count, m.consolidated, m.consolidation_status,
          m.consolidation_attempts, m.last_consolidation_error, m.next_consolidation_retry_at,
          m.dead_letter_reason, m.created_at, m.last_referenced_at, m.expires_at, m.place,
          m.author, m.said_at, m.origin, m.trust, m.stored_by, m.quarantined, m.metadata,
          outdated_by(tenant, m.id, at) as outdated_by
        from unnest(types, ids) as w (type, id)
        join episodes m on m.tenant_id = tenant and m.id = w.id
        where w.type = 'episode' and m.quarantined is null
      ) e
      union all
      select 'fact', f.id, to_jsonb(f) from (
        select m.id, m.tenant_id, m.subject, m.predicate, m.content, m.importance, m.confidence,
          m.decay_rate, m.permanence, m.source_butler, m.source_episode_id, m.supersedes_id,
          m.entity_id, m.validity, fact_state(m.validity, m.metadata) as state, m.scope,
          m.valid_from, m.valid_to, m.reference_count, m.created_at, m.last_referenced_at,
          m.last_confirmed_at, m.session_id, m.place, m.author, m.said_at, m.origin, m.trust,
          m.stored_by, m.quarantined, m.tags, m.metadata,
          effective_confidence(m.confidence, m.decay_rate, m.last_confirmed_at, at)
            as effective_confidence,
          in_doubt(tenant, 'fact', m.id, at) as in_doubt
        from unnest(types, ids) as w (type, id)
        join facts m on m.tenant_id = tenant and m.id = w.id
        where w.type = 'fact' and m.quarantined is null
      ) f
      union all
      select 'rule', r.id, to_jsonb(r) from (
        select m.id, m.tenant_id, m.content, m.scope, m.maturity, m.confidence, m.decay_rate,
          m.permanence, m.effectiveness_score, m.applied_count, m.success_count, m.harmful_count,
          m.source_episode_id, m.source_butler, m.created_at, m.last_applied_at,
          m.last_evaluated_at, m.last_confirmed_at, m.reference_count, m.last_referenced_at,
          m.origin, m.trust, m.stored_by, m.quarantined,
          has_own_marks(tenant, m.id, m.stored_by) as own_marks,
          m.tags, m.metadata, rule_state(m.metadata) as state,
          m.confidence_floor, effective_confidence(
            m.confidence, m.decay_rate, m.last_confirmed_at, at, m.confidence_floor
          ) as effective_confidence,
          in_doubt(tenant, 'rule', m.id, at) as in_doubt
        from unnest(types, ids) as w (type, id)
        join rules m on m.tenant_id = tenant and m.id = w.id
        where w.type = 'rule' and m.quarantined is null
      ) r;
    end
    $$;

-- tenants --
-- Every tenant there is.
select memory_tenant_names() as tenant

-- act_for --
-- From here on only this tenant's rows exist, also for an owner whom the policies bind.
select act_for(:tenant, 'migration', tenant_proof(:tenant, 'migration'))

-- helped --
-- Whoever said that a rule helped confirmed it.
update rules set last_confirmed_at = marked.at
from (
  select r.id, max(m.created_at) as at
  from rules r
  cross join lateral counted_marks(:tenant, r.id) m
  where r.tenant_id = :tenant and m.outcome = 'helpful'
  group by r.id
) marked
where rules.tenant_id = :tenant and rules.id = marked.id
  and coalesce(rules.last_confirmed_at, '-infinity') < marked.at

-- entered --
-- What rules keep enters the index.
update index_memories i set confidence_floor = r.confidence_floor
from rules r
where i.tenant_id = :tenant and i.memory_type = 'rule' and r.tenant_id = :tenant
  and r.id = i.memory_id and r.confidence_floor > 0
