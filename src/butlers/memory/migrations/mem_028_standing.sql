-- {planned} --
-- A plan is made once, not for every question, and must serve when there are many rows.
set enable_seqscan = off set plan_cache_mode = force_generic_plan

-- same_said --
-- Whether two contents say the same, but for case, spacing and the punctuation around them.
create function same_said(one text, other text) returns boolean
language sql immutable parallel safe
return btrim(lower(regexp_replace(one, '\s+', ' ', 'g')), ' .,;:!?"''')
  = btrim(lower(regexp_replace(other, '\s+', ' ', 'g')), ' .,;:!?"''');

-- is_held --
-- Whether a fact holds: now; at a time, by what is believed now; or by what was believed then.
create function is_held(
  f facts, at timestamptz, as_of timestamptz, known_at timestamptz
) returns boolean
language sql stable
return case
  when known_at is not null then coalesce(
    coalesce(as_of, known_at) <@ window_known((f).tenant_id, (f).id, known_at), false
  )
  when as_of is not null then (f).validity in ('active', 'superseded', 'expired')
    and holds((f).valid_from, (f).valid_to, as_of)
  else (f).validity = 'active' and holds((f).valid_from, (f).valid_to, at)
end;

-- holder_of --
-- The fact that holds under the key of another, or is that other; where a content is given, one
-- that says it.
create function holder_of(
  f facts, said text, at timestamptz, as_of timestamptz, known_at timestamptz
) returns uuid
language plpgsql stable cost 10000 {planned} as $$
    begin
      if as_of is null and known_at is null then
        return (
          select g.id from facts g
          where g.tenant_id = f.tenant_id and g.scope = f.scope and g.predicate = f.predicate
            and g.validity = 'active' and holds(g.valid_from, g.valid_to, at)
            and g.entity_id is null and f.entity_id is null and g.subject = f.subject
            and (said is null or same_said(g.content, said))
          union all
          select g.id from facts g
          where g.tenant_id = f.tenant_id and g.scope = f.scope and g.predicate = f.predicate
            and g.validity = 'active' and holds(g.valid_from, g.valid_to, at)
            and g.entity_id = f.entity_id
            and (said is null or same_said(g.content, said))
          limit 1
        );
      end if;
      return (
        select g.id from facts g
        where g.tenant_id = f.tenant_id and g.scope = f.scope and g.predicate = f.predicate
          and g.entity_id is not distinct from f.entity_id
          and (f.entity_id is not null or g.subject = f.subject)
          and (said is null or same_said(g.content, said))
          and is_held(g, at, as_of, known_at)
        order by g.created_at desc limit 1
      );
    end
    $$;

-- fact_stands --
-- Whether what a fact says is believed and holds, be it by another of its key.
create function fact_stands(
  f facts, at timestamptz, as_of timestamptz, known_at timestamptz
) returns boolean
language sql stable
return is_held(f, at, as_of, known_at)
  or holder_of(f, (f).content, at, as_of, known_at) is not null;

-- has_ended --
-- Whether a fact that was believed is so no more, or holds no more; not one that was told of the
-- past from the first, or of what is yet to come.
create function has_ended(
  f facts, at timestamptz, as_of timestamptz, known_at timestamptz
) returns boolean
language sql stable
return (f).validity <> 'quarantined' and case
  when known_at is not null then (f).created_at <= known_at and (
    coalesce(
      state_known((f).tenant_id, (f).id, known_at) in ('superseded', 'expired', 'retracted'), false
    )
    or coalesce(
      upper(window_known((f).tenant_id, (f).id, known_at))
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

-- outdated_by --
-- What took the place of statements that were drawn from an episode and hold no more: the fact that
-- holds under their key, or else the statement itself. None where all still hold.
create function outdated_by(
  tenant text, episode uuid, at timestamptz, as_of timestamptz, known_at timestamptz
) returns uuid[]
language sql stable cost 10000 {planned}
begin atomic
  select array_agg(distinct coalesce(holder_of(f, null, at, as_of, known_at), f.id)) from facts f
  where f.tenant_id = tenant
    and f.id in (
      select d.id from facts d where d.tenant_id = tenant and d.source_episode_id = episode
      union all
      select l.source_id from memory_links l
      where l.tenant_id = tenant and l.target_type = 'episode' and l.target_id = episode
        and l.source_type = 'fact' and l.relation = 'derived_from'
    )
    and has_ended(f, at, as_of, known_at)
    and not fact_stands(f, at, as_of, known_at);
end;

-- rule_stands --
-- Whether a rule is in use, or was at a time.
create function rule_stands(r rules, known_at timestamptz) returns boolean
language sql stable
return case
  when known_at is not null then rule_known((r).tenant_id, (r).id, known_at)
  else rule_state((r).metadata, (r).quarantined) not in ('forgotten', 'quarantined')
end;

-- in_doubt --
-- What a memory rests on, directly or through others, that does not stand; none where all of it
-- does.
create function in_doubt(
  tenant text, kind text, memory uuid, at timestamptz, as_of timestamptz, known_at timestamptz
) returns uuid[]
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
      where f.tenant_id = tenant and f.id = g.id and fact_stands(f, at, as_of, known_at)
    ))
    or (g.kind = 'rule' and not exists (
      select from rules r where r.tenant_id = tenant and r.id = g.id and rule_stands(r, known_at)
    ));
end;

-- tell_memories --
-- Memories as their readers get them, whatever their kind; none that is in quarantine. Only where
-- something may have fallen is it asked whether it did: most memories have no such links.
create function tell_memories(
  tenant text, types text[], ids uuid[], now timestamptz, as_of timestamptz, known_at timestamptz
) returns table (memory_type text, id uuid, told jsonb)
language plpgsql {planned} as $$
    declare
      at timestamptz := coalesce(as_of, known_at, now);
    begin
      perform set_config('butlers.tenant', tenant, true);
      return query
      select 'episode', e.id, to_jsonb(e) from (
        select m.id, m.tenant_id, m.butler, m.session_id, m.content, m.retry_count, m.last_error,
          m.importance, m.reference_count, m.consolidated, m.consolidation_status,
          m.consolidation_attempts, m.last_consolidation_error, m.next_consolidation_retry_at,
          m.dead_letter_reason, m.created_at, m.last_referenced_at, m.expires_at, m.place,
          m.author, m.said_at, m.origin, m.trust, m.stored_by, m.quarantined, m.metadata,
          case when known_at is not null or exists (
            select from facts d
            where d.tenant_id = tenant and d.source_episode_id = m.id
              and (d.validity <> 'active' or d.valid_to is not null)
          ) or exists (
            select from memory_links l
            where l.tenant_id = tenant and l.target_type = 'episode' and l.target_id = m.id
              and l.relation = 'derived_from'
          ) then outdated_by(tenant, m.id, now, as_of, known_at) end as outdated_by
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
          case when exists (
            select from memory_links l
            where l.tenant_id = tenant and l.source_type = 'fact' and l.source_id = m.id
              and l.relation = 'depends_on'
          ) then in_doubt(tenant, 'fact', m.id, now, as_of, known_at) end as in_doubt
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
          case when exists (
            select from memory_links l
            where l.tenant_id = tenant and l.source_type = 'rule' and l.source_id = m.id
              and l.relation = 'depends_on'
          ) then in_doubt(tenant, 'rule', m.id, now, as_of, known_at) end as in_doubt
        from unnest(types, ids) as w (type, id)
        join rules m on m.tenant_id = tenant and m.id = w.id
        where w.type = 'rule' and m.quarantined is null
      ) r;
    end
    $$;
