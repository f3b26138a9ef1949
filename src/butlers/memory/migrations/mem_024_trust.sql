-- origin --
-- Who said it, how far that is trusted (4: stated, 3: inferred, 2: a document, 1: a tool's output,
-- 0: a token of low trust), by whom it was stored, and why it is in quarantine, if it is.
alter table {table}
add column origin text not null default 'agent',
add column trust smallint not null default 4,
add column stored_by text,
add column quarantined text,
add constraint {table}_origin
  check (origin in ('operator', 'user', 'agent', 'inferred', 'document', 'tool')),
add constraint {table}_trust check (trust between 0 and 4);
create index {table}_quarantined on {table} (tenant_id, created_at, id)
where quarantined is not null;

-- validity --
-- A fact in quarantine holds no key.
alter table facts drop constraint facts_validity;
alter table facts
add constraint facts_validity
  check (validity in ('active', 'superseded', 'expired', 'retracted', 'quarantined')),
add constraint facts_quarantined check (validity <> 'quarantined' or quarantined is not null);

-- marks --
-- A mark of somebody less trusted than the rule is kept and does not count.
alter table rule_applications
add column origin text not null default 'agent',
add column counted boolean not null default true,
add constraint rule_applications_origin
  check (origin in ('operator', 'user', 'agent', 'inferred', 'document', 'tool'));

-- rights --
-- What an undo takes back includes links.
grant delete on memory_links to butlers_runtime;

-- states --
-- The one word a reader is shown, for what may be in quarantine too.
create function rule_state(metadata jsonb, quarantined text) returns text
language sql immutable parallel safe
return case
  when quarantined is not null and rule_state(metadata) <> 'forgotten' then 'quarantined'
  else rule_state(metadata)
end;
create function episode_state(expires_at timestamptz, at timestamptz, quarantined text)
returns text
language sql immutable parallel safe
return case
  when quarantined is not null and episode_state(expires_at, at) <> 'expired' then 'quarantined'
  else episode_state(expires_at, at)
end;

-- counted_marks --
-- The marks that a rule stands by: those that count and were not taken back.
create function counted_marks(tenant text, rule uuid)
returns table (
  id uuid, outcome text, reason text, actor text, origin text, created_at timestamptz
)
language sql stable
begin atomic
  select a.id, a.outcome, a.reason, a.actor, a.origin, a.created_at
  from rule_applications a
  where a.tenant_id = tenant and a.rule_id = rule and a.counted and not exists (
    select from memory_events e
    where e.tenant_id = tenant and e.memory_id = rule and e.event_type = 'rule_unmarked'
      and jsonb_exists(e.payload -> 'applications', a.id::text)
  );
end;

-- has_own_marks --
-- Whether every mark a rule stands by comes from whoever stored it; false where there is none.
create function has_own_marks(tenant text, rule uuid, author text) returns boolean
language sql stable
return (select coalesce(bool_and(m.actor = author), false) from counted_marks(tenant, rule) m);

-- indexed_memories --
-- What is in quarantine is in the index and never shown.
create or replace view indexed_memories with (security_invoker = true) as
select tenant_id, 'episode' as memory_type, id as memory_id, quarantined is null as shown,
  butler as scope, 1.0::float as confidence, 0.0::float as decay_rate,
  null::timestamptz as confirmed_at, expires_at, created_at, said_at, session_id, place, author,
  null::uuid as entity_id, search_vector
from episodes
union all
select tenant_id, 'fact', id, validity = 'active', scope, confidence, decay_rate,
  last_confirmed_at, null, created_at, said_at, session_id, place, author, entity_id, search_vector
from facts
union all
select tenant_id, 'rule', id, quarantined is null and rule_state(metadata) <> 'forgotten', scope,
  confidence, decay_rate, last_confirmed_at, null, created_at, null, null, null, null, null,
  search_vector
from rules;

-- watched --
-- Leaving quarantine is seen by the index at once.
create trigger {table}_index_released after update of quarantined on {table}
for each row when (old.quarantined is distinct from new.quarantined)
execute function index_changed();

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
          m.author, m.said_at, m.origin, m.trust, m.stored_by, m.quarantined, m.metadata
        from unnest(types, ids) as w (type, id)
        join episodes m on m.tenant_id = tenant and m.id = w.id
        where w.type = 'episode' and m.quarantined is null
      ) e
      union all
      select 'fact', f.id, to_jsonb(f) from (
        select m.id, m.tenant_id, m.subject, m.predicate, m.content, m.importance, m.confidence,
          m.decay_rate, m.permanence, m.source_butler, m.source_episode_id, m.supersedes_id,
          m.entity_id, m.validity, fact_state(m.validity, m.metadata) as state, m.scope,
          m.reference_count, m.created_at, m.last_referenced_at, m.last_confirmed_at,
          m.session_id, m.place, m.author, m.said_at, m.origin, m.trust, m.stored_by,
          m.quarantined, m.tags, m.metadata,
          effective_confidence(m.confidence, m.decay_rate, m.last_confirmed_at, at)
            as effective_confidence
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
          effective_confidence(m.confidence, m.decay_rate, m.last_confirmed_at, at)
            as effective_confidence
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
select set_config('butlers.tenant', :tenant, true)

-- storers --
-- Who stored what there is, by the audit stream.
update {table} set stored_by = told.actor
from (
  select distinct on (memory_id) memory_id, actor from memory_events
  where tenant_id = :tenant
    and event_type in ('episode_created', 'fact_created', 'rule_created')
  order by memory_id, sequence
) told
where {table}.tenant_id = :tenant and {table}.id = told.memory_id

-- drawn --
-- What a model drew from episodes had a key that said so.
update {table} set origin = 'inferred', trust = 3
where tenant_id = :tenant and idempotency_key like 'consolidation:%'
