-- windows --
-- When a fact holds: from the one, until before the other; null is open. One that never held,
-- because it was put right, has an empty window.
alter table facts
add column valid_from timestamptz,
add column valid_to timestamptz,
add constraint facts_window check (valid_from <= valid_to);

-- fact_key --
-- What a fact is known by: scope and predicate of an entity, or else of a subject.
create function fact_key(scope text, entity_id uuid, subject text, predicate text) returns uuid
language sql immutable parallel safe
return md5(
  md5(scope) || coalesce(entity_id::text, md5(subject)) || md5(predicate)
)::uuid;

-- keys --
-- Facts that are believed never hold at once under one key.
create extension if not exists btree_gist with schema public;
drop index facts_active_entity_key;
drop index facts_active_subject_key;
create index facts_active_entity_key on facts (tenant_id, entity_id, scope, predicate)
where validity = 'active' and entity_id is not null;
create index facts_active_subject_key on facts (tenant_id, scope, subject, predicate)
where validity = 'active' and entity_id is null;
alter table facts
add constraint facts_hold_apart exclude using gist (
  tenant_id with =,
  fact_key(scope, entity_id, subject, predicate) with =,
  tstzrange(valid_from, valid_to) with &&
) where (validity = 'active');

-- relations --
-- What falls into doubt with what it rests on says so.
alter table memory_links drop constraint memory_links_relation;
alter table memory_links add constraint memory_links_relation check (
  relation in (
    'derived_from', 'supports', 'contradicts', 'supersedes', 'related_to', 'depends_on'
  )
);

-- index --
-- The index knows when a fact holds, and whether it may be told of the past.
alter table index_memories
add column valid_from timestamptz,
add column valid_to timestamptz,
add column past boolean not null default false;
create or replace view indexed_memories with (security_invoker = true) as
select tenant_id, 'episode' as memory_type, id as memory_id, quarantined is null as shown,
  butler as scope, 1.0::float as confidence, 0.0::float as decay_rate,
  null::timestamptz as confirmed_at, expires_at, created_at, said_at, session_id, place, author,
  null::uuid as entity_id, search_vector, null::timestamptz as valid_from,
  null::timestamptz as valid_to, false as past
from episodes
union all
select tenant_id, 'fact', id, validity = 'active', scope, confidence, decay_rate,
  last_confirmed_at, null, created_at, said_at, session_id, place, author, entity_id,
  search_vector, valid_from, valid_to, validity in ('superseded', 'expired')
from facts
union all
select tenant_id, 'rule', id, quarantined is null and rule_state(metadata) <> 'forgotten', scope,
  confidence, decay_rate, last_confirmed_at, null, created_at, null, null, null, null, null,
  search_vector, null, null, false
from rules;

-- changed --
-- What a search chooses by is kept as the memory has it; a place once taken stays.
create or replace function index_changed() returns trigger language plpgsql as $$
    declare kind text := rtrim(tg_table_name, 's');
    begin
      update index_memories i
      set shown = m.shown, scope = m.scope, confidence = m.confidence, decay_rate = m.decay_rate,
        confirmed_at = m.confirmed_at, expires_at = m.expires_at, created_at = m.created_at,
        said_at = m.said_at, session_id = m.session_id, author = m.author,
        entity_id = m.entity_id, valid_from = m.valid_from, valid_to = m.valid_to, past = m.past,
        place = case
          when m.place is not null then m.place
          when m.session_id is not distinct from i.session_id then i.place
          else last_place(m.tenant_id, m.session_id) + 1
        end
      from indexed_memories m
      where i.tenant_id = new.tenant_id and i.memory_type = kind and i.memory_id = new.id
        and m.tenant_id = new.tenant_id and m.memory_type = kind and m.memory_id = new.id;
      return null;
    end
    $$;

-- watched --
-- A window enters the index with its fact, after what every memory enters with.
create trigger facts_index_windowed after insert on facts
for each row when (
  new.valid_from is not null or new.valid_to is not null or new.validity <> 'active'
)
execute function index_changed();
create trigger facts_index_moved after update of valid_from, valid_to on facts
for each row when (
  (old.valid_from, old.valid_to) is distinct from (new.valid_from, new.valid_to)
  and old.validity = new.validity
)
execute function index_changed();

-- holds --
-- Whether a moment lies within a window.
create function holds(valid_from timestamptz, valid_to timestamptz, at timestamptz) returns boolean
language sql immutable parallel safe
return (valid_from is null or valid_from <= at) and (valid_to is null or at < valid_to);

-- window_known --
-- The window that a fact was believed to have at a time; none where it was not believed then. The
-- audit stream knows: the state it was in last, and what its window was before it next changed.
create function window_known(tenant text, fact uuid, known_at timestamptz) returns tstzrange
language plpgsql stable as $$
    declare
      stood text;
      was jsonb;
      held tstzrange;
    begin
      select e.payload ->> 'to' into stood from memory_events e
      where e.tenant_id = tenant and e.memory_id = fact and e.created_at <= known_at
        and e.payload ->> 'to' in (
          'active', 'fading', 'superseded', 'expired', 'retracted', 'quarantined'
        )
      order by e.sequence desc limit 1;
      if stood is null or stood not in ('active', 'fading') then
        return null;
      end if;
      select e.payload -> 'window' -> 'from' into was from memory_events e
      where e.tenant_id = tenant and e.memory_id = fact and e.created_at > known_at
        and jsonb_exists(e.payload, 'window')
      order by e.sequence limit 1;
      if was is not null then
        return tstzrange((was ->> 0)::timestamptz, (was ->> 1)::timestamptz);
      end if;
      select tstzrange(f.valid_from, f.valid_to) into held from facts f
      where f.tenant_id = tenant and f.id = fact;
      return held;
    end
    $$;

-- rule_known --
-- Whether a rule was in use at a time.
create function rule_known(tenant text, rule uuid, known_at timestamptz) returns boolean
language sql stable
return coalesce((
  select e.payload ->> 'to' not in ('forgotten', 'quarantined') from memory_events e
  where e.tenant_id = tenant and e.memory_id = rule and e.created_at <= known_at
    and jsonb_typeof(e.payload -> 'to') = 'string'
  order by e.sequence desc limit 1
), false);

-- was_known --
-- Whether a memory was believed at a time to hold at another.
create function was_known(m index_memories, moment timestamptz, known_at timestamptz)
returns boolean
language sql stable
return (m).created_at <= known_at and case (m).memory_type
  when 'fact' then coalesce(
    moment <@ window_known((m).tenant_id, (m).memory_id, known_at), false
  )
  when 'rule' then rule_known((m).tenant_id, (m).memory_id, known_at)
  else (m).shown and episode_state((m).expires_at, known_at) <> 'expired'
    and coalesce((m).said_at, (m).created_at) <= moment
end;

-- held_then --
-- Whether a memory holds at a time, by what is believed now.
create function held_then(m index_memories, at timestamptz, as_of timestamptz) returns boolean
language sql immutable parallel safe
return ((m).shown or (m).past) and holds((m).valid_from, (m).valid_to, as_of)
  and episode_state((m).expires_at, at) <> 'expired'
  and ((m).memory_type <> 'episode' or coalesce((m).said_at, (m).created_at) <= as_of);

-- is_found --
-- Whether a search may show a memory of the index: of the kinds wanted, seen from where it is asked
-- (an episode from its own scope alone), sure enough, and holding at the time that is asked for.
create function is_found(
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
    (m).confidence, (m).decay_rate, (m).confirmed_at, coalesce(as_of, known_at, at)
  ) >= least_confidence
  and case
    when known_at is not null then was_known(m, coalesce(as_of, known_at), known_at)
    when as_of is not null then held_then(m, at, as_of)
    else (m).shown and holds((m).valid_from, (m).valid_to, at)
      and episode_state((m).expires_at, at) <> 'expired'
  end;

-- replaced --
-- What asked without a time.
drop function find_candidates(
  text, uuid, text, text, vector, vector, text[], text, float, timestamptz, integer, bigint,
  bigint, bigint, integer
);
drop function shown_candidates(
  text, uuid, halfvec, halfvec, near_memories, bigint[], bigint[], text[], text, float,
  timestamptz, integer
);
drop function matching_shown(text, known_words, text[], text, float, timestamptz, integer);
drop function nearest_shown(text, uuid, halfvec, text[], text, float, timestamptz, integer);
drop function is_found(index_memories, text[], text, float, timestamptz);

-- same_said --
-- Whether two contents say the same, but for case, spacing and punctuation.
create function same_said(one text, other text) returns boolean
language sql immutable parallel safe
return btrim(lower(regexp_replace(one, '[^[:alnum:]]+', ' ', 'g')))
  = btrim(lower(regexp_replace(other, '[^[:alnum:]]+', ' ', 'g')));

-- fact_stands --
-- Whether what a fact says is believed and holds at a time, be it by another of its key.
create function fact_stands(f facts, at timestamptz) returns boolean
language sql stable
return ((f).validity = 'active' and holds((f).valid_from, (f).valid_to, at)) or exists (
  select from facts g
  where g.tenant_id = (f).tenant_id and g.scope = (f).scope and g.predicate = (f).predicate
    and g.validity = 'active' and holds(g.valid_from, g.valid_to, at)
    and case
      when (f).entity_id is null then g.entity_id is null and g.subject = (f).subject
      else g.entity_id = (f).entity_id
    end
    and same_said(g.content, (f).content)
);

-- outdated_by --
-- What took the place of statements that were drawn from an episode and hold no more: the fact that
-- holds now under their key, or else the statement itself. None where all still hold, or told of
-- the past from the first.
create function outdated_by(tenant text, episode uuid, at timestamptz) returns uuid[]
language sql stable
begin atomic
  select array_agg(distinct coalesce(n.id, f.id)) from facts f
  left join lateral (
    select g.id from facts g
    where g.tenant_id = tenant and g.scope = f.scope and g.predicate = f.predicate
      and g.validity = 'active' and holds(g.valid_from, g.valid_to, at)
      and case
        when f.entity_id is null then g.entity_id is null and g.subject = f.subject
        else g.entity_id = f.entity_id
      end
    limit 1
  ) n on true
  where f.tenant_id = tenant and f.validity <> 'quarantined'
    and f.id in (
      select d.id from facts d where d.tenant_id = tenant and d.source_episode_id = episode
      union all
      select l.source_id from memory_links l
      where l.tenant_id = tenant and l.target_type = 'episode' and l.target_id = episode
        and l.source_type = 'fact' and l.relation = 'derived_from'
    )
    and (
      f.validity in ('superseded', 'expired', 'retracted')
      or (f.valid_to <= at and f.valid_to > f.created_at)
    )
    and not fact_stands(f, at);
end;

-- in_doubt --
-- What a memory rests on, directly or through others, that does not stand; none where all of it
-- does. Only what was itself stored as a ground counts.
create function in_doubt(tenant text, kind text, memory uuid, at timestamptz)
returns uuid[]
language sql stable
begin atomic
  with recursive grounds (kind, id) as (
    select l.target_type, l.target_id from memory_links l
    where l.tenant_id = tenant and l.source_type = in_doubt.kind and l.source_id = memory
      and l.relation = 'depends_on'
    union
    select l.target_type, l.target_id from grounds g
    join memory_links l on l.tenant_id = tenant and l.source_type = g.kind
      and l.source_id = g.id and l.relation = 'depends_on'
  )
  select array_agg(g.id order by g.id) from grounds g
  where (g.kind = 'fact' and not exists (
      select from facts f where f.tenant_id = tenant and f.id = g.id and fact_stands(f, at)
    ))
    or (g.kind = 'rule' and not exists (
      select from rules r where r.tenant_id = tenant and r.id = g.id
        and rule_state(r.metadata, r.quarantined) not in ('forgotten', 'quarantined')
    ));
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
          effective_confidence(m.confidence, m.decay_rate, m.last_confirmed_at, at)
            as effective_confidence,
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

-- begun --
-- What took another's place holds since then.
update facts set valid_from = created_at
where tenant_id = :tenant and supersedes_id in (
  select f.id from facts f where f.tenant_id = :tenant and f.created_at <= facts.created_at
)

-- ended --
-- What gave way held until what took its place began; what lost to one that was there before it, or
-- to none that is known, never held.
update facts
set valid_from = case when next.since is null then facts.created_at else facts.valid_from end,
  valid_to = coalesce(next.since, facts.created_at)
from (
  select f.id, (
    select min(s.valid_from) from facts s
    where s.tenant_id = :tenant and s.supersedes_id = f.id and s.valid_from >= f.created_at
  ) as since
  from facts f
  where f.tenant_id = :tenant and f.validity = 'superseded'
) next
where facts.tenant_id = :tenant and facts.id = next.id

-- entered --
-- What was superseded or has faded may be told of the past from now on.
update index_memories i set past = true
from facts f
where i.tenant_id = :tenant and i.memory_type = 'fact' and not i.past
  and f.tenant_id = :tenant and f.id = i.memory_id and f.validity in ('superseded', 'expired')
