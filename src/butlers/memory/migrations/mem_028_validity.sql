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

-- grounds --
-- What rests on a memory is found without reading every link.
create index memory_links_grounds on memory_links (tenant_id, target_type, target_id)
where relation = 'depends_on';

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

-- state_known --
-- The state that a fact was in at a time, as the audit stream tells it.
create function state_known(tenant text, fact uuid, known_at timestamptz) returns text
language sql stable
return (
  select e.payload ->> 'to' from memory_events e
  where e.tenant_id = tenant and e.memory_id = fact and e.created_at <= known_at
    and e.payload ->> 'to' in (
      'active', 'fading', 'superseded', 'expired', 'retracted', 'quarantined'
    )
  order by e.sequence desc limit 1
);

-- window_known --
-- The window that a fact was believed to have at a time, be it over; none where it was not believed.
-- The audit stream knows: the state it was in last, and what its window was before it next changed.
create function window_known(tenant text, fact uuid, known_at timestamptz) returns tstzrange
language plpgsql stable as $$
    declare
      was jsonb;
      held tstzrange;
    begin
      if coalesce(state_known(tenant, fact, known_at), '')
        not in ('active', 'fading', 'superseded') then
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
    (m).confidence, (m).decay_rate, (m).confirmed_at, coalesce(as_of, known_at, at),
    (m).confidence_floor
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
drop function tell_memories(text, text[], uuid[], timestamptz);

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
