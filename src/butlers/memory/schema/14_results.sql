-- load_memories --
-- Memories as readers get them, whatever their kind; none in quarantine. Doubt is only computed for
-- memories that have links: most have none.
create or replace function load_memories(
  tenant text, types text[], ids uuid[], now timestamptz, as_of timestamptz, known_at timestamptz
) returns table (memory_type text, id uuid, memory jsonb)
language plpgsql {planned} as $$
    declare
      at timestamptz := coalesce(as_of, known_at, now);
    begin
      perform set_config('butlers.tenant', tenant, true);
      return query
      select 'episode', e.id, to_jsonb(e) from (
        select m.id, m.tenant_id, m.butler, m.session_id, m.content, m.retry_count, m.last_error,
          {m_episode_columns},
          case when known_at is not null or m.past_by is not null or exists (
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
        select m.id, m.tenant_id, m.subject, m.predicate, m.content, {m_fact_columns},
          fact_state(m.validity, m.metadata) as state,
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
        select m.id, m.tenant_id, m.content, {m_rule_columns},
          has_only_own_reports(tenant, m.id, m.stored_by) as own_marks,
          rule_state(m.metadata) as state, effective_confidence(
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

-- tenant_profile --
-- What a process caches of a tenant: embedding versions, names of people, aliases, memory count.
create or replace function tenant_profile(tenant text)
returns table (versions jsonb, names text[], memories bigint, called jsonb)
language plpgsql as $$
    begin
      perform set_config('butlers.tenant', tenant, true);
      versions := (
        select coalesce(jsonb_agg(to_jsonb(v) order by v.created_at desc, v.id), '[]')
        from (
          select e.id, e.model, e.version, e.dimensions, e.directory, e.state, e.created_at
          from embedding_versions e where e.tenant_id = tenant
        ) v
      );
      names := (
        select coalesce(array_agg(n.name order by n.name), '{}')
        from index_names n where n.tenant_id = tenant
      );
      memories := (
        select count(*) from index_memories m where m.tenant_id = tenant and m.doc > 0
      );
      called := (
        select coalesce(jsonb_object_agg(known.name, known.called), '{}')
        from (
          select lower(alias) as name, min(e.canonical_name) as called
          from entities e cross join unnest(e.aliases) as alias
          where e.tenant_id = tenant and e.trust > 0 and entity_state(e.metadata) <> 'merged'
          group by lower(alias)
          having count(distinct e.id) = 1
          order by lower(alias)
          limit 10000
        ) known
      );
      return next;
    end
    $$;
