-- state_believed --
-- The state a fact was in at a time, by the audit log.
create or replace function state_believed(tenant text, fact uuid, known_at timestamptz) returns text
language sql stable
return (
  select e.payload ->> 'to' from memory_events e
  where e.tenant_id = tenant and e.memory_id = fact and e.created_at <= known_at
    and e.payload ->> 'to' in (
      'active', 'fading', 'superseded', 'expired', 'retracted', 'quarantined'
    )
  order by e.sequence desc limit 1
);

-- window_believed --
-- The validity window a fact was believed to have at a time; null where it was not believed.
create or replace function window_believed(tenant text, fact uuid, known_at timestamptz) returns tstzrange
language plpgsql stable as $$
    declare
      was jsonb;
      held tstzrange;
    begin
      if coalesce(state_believed(tenant, fact, known_at), '')
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

-- was_rule_current --
-- Whether a rule was in use at a time.
create or replace function was_rule_current(tenant text, rule uuid, known_at timestamptz) returns boolean
language sql stable
return coalesce((
  select e.payload ->> 'to' not in ('forgotten', 'quarantined') from memory_events e
  where e.tenant_id = tenant and e.memory_id = rule and e.created_at <= known_at
    and jsonb_typeof(e.payload -> 'to') = 'string'
  order by e.sequence desc limit 1
), false);

-- was_believed --
-- Whether a memory was believed at `known_at` to hold at `moment`.
create or replace function was_believed(m index_memories, moment timestamptz, known_at timestamptz)
returns boolean
language sql stable
return (m).created_at <= known_at and case (m).memory_type
  when 'fact' then coalesce(
    moment <@ window_believed((m).tenant_id, (m).memory_id, known_at), false
  )
  when 'rule' then was_rule_current((m).tenant_id, (m).memory_id, known_at)
  else (m).shown and episode_state((m).expires_at, known_at) <> 'expired'
    and coalesce((m).said_at, (m).created_at) <= moment
end;

-- is_valid_at --
-- Whether a memory holds at a time, by what is believed now.
create or replace function is_valid_at(m index_memories, at timestamptz, as_of timestamptz) returns boolean
language sql immutable parallel safe
return ((m).shown or (m).past) and is_within((m).valid_from, (m).valid_to, as_of)
  and episode_state((m).expires_at, at) <> 'expired'
  and ((m).memory_type <> 'episode' or coalesce((m).said_at, (m).created_at) <= as_of);

-- passes_filter --
-- Whether a search may return a memory: kind, scope, confidence, and valid when asked about.
create or replace function passes_filter(m index_memories, {asked}) returns boolean
language sql stable
return (m).memory_type = any(types)
  and case
    when (m).memory_type = 'episode' then by_scope is null or is_named_scope((m).scope, by_scope)
    else is_visible_scope((m).scope, by_scope)
  end
  and effective_confidence(
    (m).confidence, (m).decay_rate, (m).confirmed_at, coalesce(as_of, known_at, at),
    (m).confidence_floor
  ) >= least_confidence
  and case
    when known_at is not null then was_believed(m, coalesce(as_of, known_at), known_at)
    when as_of is not null then is_valid_at(m, at, as_of)
    else (m).shown and is_within((m).valid_from, (m).valid_to, at)
      and episode_state((m).expires_at, at) <> 'expired'
  end;

-- is_fact_valid --
-- Whether a fact is valid: now; at a time by what is believed now; or by what was believed then.
create or replace function is_fact_valid(f facts, {moment}) returns boolean
language sql stable
return case
  when known_at is not null then coalesce(
    coalesce(as_of, known_at) <@ window_believed((f).tenant_id, (f).id, known_at), false
  )
  when as_of is not null then (f).validity in ('active', 'superseded', 'expired')
    and is_within((f).valid_from, (f).valid_to, as_of)
  else (f).validity = 'active' and is_within((f).valid_from, (f).valid_to, at)
end;

-- valid_fact_of_key --
-- The fact that is valid under the key of another; with a content, one that says the same.
create or replace function valid_fact_of_key(f facts, said text, {moment}) returns uuid
language plpgsql stable cost 10000 {planned} as $$
    begin
      if as_of is null and known_at is null then
        return (
          select g.id from facts g
          where g.tenant_id = f.tenant_id and g.scope = f.scope and g.predicate = f.predicate
            and g.validity = 'active' and is_within(g.valid_from, g.valid_to, at)
            and g.entity_id is null and f.entity_id is null and g.subject = f.subject
            and (said is null or is_same_content(g.content, said))
          union all
          select g.id from facts g
          where g.tenant_id = f.tenant_id and g.scope = f.scope and g.predicate = f.predicate
            and g.validity = 'active' and is_within(g.valid_from, g.valid_to, at)
            and g.entity_id = f.entity_id
            and (said is null or is_same_content(g.content, said))
          limit 1
        );
      end if;
      return (
        select g.id from facts g
        where g.tenant_id = f.tenant_id and g.scope = f.scope and g.predicate = f.predicate
          and g.entity_id is not distinct from f.entity_id
          and (f.entity_id is not null or g.subject = f.subject)
          and (said is null or is_same_content(g.content, said))
          and is_fact_valid(g, at, as_of, known_at)
        order by g.created_at desc limit 1
      );
    end
    $$;

-- is_fact_current --
-- Whether what a fact says is valid, be it through another fact of its key.
create or replace function is_fact_current(f facts, {moment}) returns boolean
language sql stable
return is_fact_valid(f, at, as_of, known_at)
  or valid_fact_of_key(f, (f).content, at, as_of, known_at) is not null;

-- has_ended --
-- Whether a fact is no longer believed or no longer valid; not one stored about the past or future.
create or replace function has_ended(f facts, {moment}) returns boolean
language sql stable
return (f).validity <> 'quarantined' and case
  when known_at is not null then (f).created_at <= known_at and (
    coalesce(
      state_believed((f).tenant_id, (f).id, known_at) in ('superseded', 'expired', 'retracted'), false
    )
    or coalesce(
      upper(window_believed((f).tenant_id, (f).id, known_at))
        between (f).created_at and coalesce(as_of, known_at), false
    )
  )
  when as_of is not null then (f).validity = 'retracted'
    or ((f).validity = 'superseded'
      and ((f).valid_from = (f).valid_to or (f).valid_to <= as_of))
    or coalesce((f).valid_to between (f).created_at and as_of, false)
  else (f).validity in ('superseded', 'expired', 'retracted')
    or coalesce((f).valid_to between (f).created_at and at, false)
end;

-- is_rule_current --
-- Whether a rule is in use, or was at a time.
create or replace function is_rule_current(r rules, known_at timestamptz) returns boolean
language sql stable
return case
  when known_at is not null then was_rule_current((r).tenant_id, (r).id, known_at)
  else rule_state((r).metadata, (r).quarantined) not in ('forgotten', 'quarantined')
end;

-- outdated_by --
-- What replaced facts derived from an episode, or they themselves, and the piece that made this one
-- past; null if all are still valid.
create or replace function outdated_by(tenant text, episode uuid, {moment}) returns uuid[]
language sql stable cost 10000 {planned}
begin atomic
  select array_cat(
    (
      select array_agg(distinct coalesce(valid_fact_of_key(f, null, at, as_of, known_at), f.id))
      from facts f
      where f.tenant_id = tenant
        and f.id in (
          select d.id from facts d where d.tenant_id = tenant and d.source_episode_id = episode
          union all
          select l.source_id from memory_links l
          where l.tenant_id = tenant and l.target_type = 'episode' and l.target_id = episode
            and l.source_type = 'fact' and l.relation = 'derived_from'
        )
        -- What low trust drew from an episode of others says nothing about it.
        and (f.trust > 0 or exists(
          select from episodes e where e.tenant_id = tenant and e.id = episode and e.trust = 0
        ))
        and has_ended(f, at, as_of, known_at)
        and not is_fact_current(f, at, as_of, known_at)
    ),
    (
      select array[later.id] from episodes past
      join episodes later on later.tenant_id = tenant and later.id = past.past_by
      where past.tenant_id = tenant and past.id = episode
        and episode_state(later.expires_at, coalesce(known_at, at), later.quarantined) = 'active'
        and later.created_at <= coalesce(known_at, 'infinity')
        and coalesce(later.said_at, later.created_at) <= coalesce(as_of, known_at, 'infinity')
    )
  );
end;

-- in_doubt --
-- What a memory depends on, directly or through others, that is no longer current; null if nothing.
create or replace function in_doubt(tenant text, kind text, memory uuid, {moment}) returns uuid[]
language sql stable cost 10000 {planned}
begin atomic
  with recursive grounds (kind, id) as (
    select l.target_type, l.target_id from memory_links l
    where l.tenant_id = tenant and l.source_type = in_doubt.kind and l.source_id = memory
      and l.relation = 'depends_on' and l.created_at <= coalesce(in_doubt.known_at, 'infinity')
    union
    select l.target_type, l.target_id from grounds g
    join memory_links l on l.tenant_id = tenant and l.source_type = g.kind
      and l.source_id = g.id and l.relation = 'depends_on'
      and l.created_at <= coalesce(in_doubt.known_at, 'infinity')
  )
  select array_agg(g.id order by g.id) from grounds g
  where (g.kind = 'fact' and not exists (
      select from facts f
      where f.tenant_id = tenant and f.id = g.id and is_fact_current(f, at, as_of, known_at)
    ))
    or (g.kind = 'rule' and not exists (
      select from rules r where r.tenant_id = tenant and r.id = g.id and is_rule_current(r, known_at)
    ));
end;
