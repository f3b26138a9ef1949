-- check_episodes --
-- Compare episodes with the events that made them what they are.
{batch_of_episodes},
replayed as materialized (
  select b.id, told.created, told.status, told.expires, told.accepted, told.past
  from batch b
  cross join lateral (
    select
      (array_agg(e.payload order by e.sequence) filter (where e.event_type = 'episode_created'))[1]
        as created,
      (array_agg(e.payload ->> 'to' order by e.sequence desc) filter (
        where e.event_type <> 'episode_accepted'
          and e.payload ->> 'to' in ('pending', 'consolidated', 'failed', 'dead_letter')
      ))[1] as status,
      (array_agg(
        case jsonb_typeof(e.payload -> 'expires_at')
          when 'object' then e.payload #>> '{expires_at,to}' else e.payload ->> 'expires_at'
        end order by e.sequence desc
      ) filter (where e.event_type in ('episode_kept', 'episode_forgotten', 'episode_restored')))[1]
        as expires,
      coalesce(bool_or(e.event_type = 'episode_accepted'), false) as accepted,
      (array_agg(e.payload #>> '{past_by,to}' order by e.sequence desc)
        filter (where e.event_type in ('episode_outdated', 'episode_reinstated')))[1] as past
    from memory_events e
    where e.tenant_id = :tenant_id and e.memory_id = b.id
  ) told
),
found as (
  select f.fault, m.id::text as id, f.expected, f.was
  from replayed r
  join episodes m on m.tenant_id = :tenant_id and m.id = r.id
  cross join lateral (
    values
      ('uncreated', r.created is null, 'episode_created', 'none'),
      ('status', r.status <> m.consolidation_status, r.status, m.consolidation_status),
      ('expiry', r.expires::timestamptz <> m.expires_at, r.expires, m.expires_at::text),
      (
        'quarantine',
        (r.created ? 'quarantined' and not r.accepted) <> (m.quarantined is not null),
        case when m.quarantined is null then 'quarantined' else 'released' end,
        case when m.quarantined is null then 'released' else 'quarantined' end
      ),
      ('past', r.past is distinct from m.past_by::text, r.past, m.past_by::text),
      (
        'in_bin', exists (
          select from binned_episodes i where i.tenant_id = :tenant_id and i.episode_id = m.id
        ), 'one place', 'both'
      )
  ) f (fault, is_wrong, expected, was)
  where f.is_wrong
)
{report}

-- check_facts --
-- Compare facts with the events that made them what they are, and with other facts of their key.
{batch_of_facts},
replayed as materialized (
  select b.id, told.created, told.state, told.framed, told.confirmed, told.accepted, told.entity
  from batch b
  cross join lateral (
    select
      (array_agg(e.payload order by e.sequence) filter (where e.event_type = 'fact_created'))[1]
        as created,
      (array_agg(e.payload ->> 'to' order by e.sequence desc) filter (
        where e.payload ->> 'to' in (
          'active', 'fading', 'superseded', 'expired', 'retracted', 'quarantined'
        )
      ))[1] as state,
      (array_agg(e.payload -> 'window' -> 'to' order by e.sequence desc)
        filter (where e.payload ? 'window'))[1] as framed,
      (array_agg({moved_at} order by e.sequence desc)
        filter (where e.payload ? 'last_confirmed_at'))[1] as confirmed,
      coalesce(bool_or(e.event_type = 'fact_accepted'), false) as accepted,
      (array_agg(e.payload ->> 'entity_id' order by e.sequence desc)
        filter (where e.event_type = 'fact_anchored'))[1] as entity
    from memory_events e
    where e.tenant_id = :tenant_id and e.memory_id = b.id
  ) told
),
known as materialized (
  select m.id, m.subject, m.predicate, m.scope, m.content, m.validity, m.metadata, m.entity_id,
    m.valid_from, m.valid_to, m.last_confirmed_at, m.quarantined, m.supersedes_id,
    r.created, r.state, r.confirmed, r.accepted,
    coalesce(
      r.framed, jsonb_build_array(r.created -> 'valid_from', r.created -> 'valid_to')
    ) as framed
  from replayed r
  join facts m on m.tenant_id = :tenant_id and m.id = r.id
),
found as (
  select f.fault, m.id::text as id, f.expected, f.was
  from known m
  cross join lateral (
    values
      ('uncreated', m.created is null, 'fact_created', 'none'),
      (
        'state', m.state <> fact_state(m.validity, m.metadata), m.state,
        fact_state(m.validity, m.metadata)
      ),
      (
        'window', m.created is not null and (
          (m.framed ->> 0)::timestamptz is distinct from m.valid_from
          or (m.framed ->> 1)::timestamptz is distinct from m.valid_to
        ), m.framed::text, jsonb_build_array(m.valid_from, m.valid_to)::text
      ),
      (
        'confirmed', m.confirmed is not null
          and (m.confirmed #>> '{}')::timestamptz is distinct from m.last_confirmed_at,
        m.confirmed #>> '{}', m.last_confirmed_at::text
      ),
      (
        'wording', digest_of_text(m.created ->> 'subject') <> digest_of_text(m.subject)
          or digest_of_text(m.created ->> 'predicate') <> digest_of_text(m.predicate),
        'the subject and predicate of fact_created', 'others'
      ),
      (
        'quarantine', m.created ? 'quarantined' and not m.accepted and m.quarantined is null,
        'quarantined', 'released'
      ),
      (
        'merged_entity', exists (
          select from entities e
          where e.tenant_id = :tenant_id and e.id = m.entity_id
            and e.metadata ->> 'merged_into' is not null
        ), 'the entity it was merged into', m.entity_id::text
      ),
      (
        'unlinked', m.supersedes_id is not null and not exists (
          select from memory_links l
          where l.tenant_id = :tenant_id and l.relation = 'supersedes'
            and l.source_type = 'fact' and l.source_id = m.id
            and l.target_type = 'fact' and l.target_id = m.supersedes_id
        ) and not exists (
          select from memory_events e
          where e.tenant_id = :tenant_id and e.memory_id = m.id and e.event_type = 'link_removed'
            and e.payload ->> 'target_id' = m.supersedes_id::text
        ), m.supersedes_id::text, 'none'
      )
  ) f (fault, is_wrong, expected, was)
  where f.is_wrong
  union all
  select 'overlap', m.id::text, 'one current fact of a key', other.id::text
  from known m
  cross join lateral (
    select g.id, g.valid_from, g.valid_to from facts g
    where g.tenant_id = :tenant_id and g.scope = m.scope and g.predicate = m.predicate
      and g.validity = 'active' and g.entity_id is null and m.entity_id is null
      and g.subject = m.subject
    union all
    select g.id, g.valid_from, g.valid_to from facts g
    where g.tenant_id = :tenant_id and g.scope = m.scope and g.predicate = m.predicate
      and g.validity = 'active' and g.entity_id = m.entity_id
  ) other
  where m.validity = 'active' and other.id > m.id
    and tstzrange(other.valid_from, other.valid_to) && tstzrange(m.valid_from, m.valid_to)
)
{report}

-- check_rules --
-- Compare rules with the events that made them what they are, and with the reports on them.
{batch_of_rules},
replayed as materialized (
  select b.id, told.created, told.state, told.maturity, told.confirmed, told.accepted, told.marked,
    marks.helpful, marks.harmful, marks.reported
  from batch b
  cross join lateral (
    select
      (array_agg(e.payload order by e.sequence) filter (where e.event_type = 'rule_created'))[1]
        as created,
      (array_agg(replace(e.payload ->> 'to', 'quarantined', 'active') order by e.sequence desc)
        filter (where e.payload ->> 'to' in ('active', 'fading', 'forgotten', 'quarantined')))[1]
        as state,
      (array_agg(e.payload ->> 'to' order by e.sequence desc) filter (
        where e.event_type <> 'rule_accepted'
          and e.payload ->> 'to' in ('candidate', 'established', 'proven', 'anti_pattern')
      ))[1] as maturity,
      (array_agg({moved_at} order by e.sequence desc)
        filter (where e.payload ? 'last_confirmed_at'))[1] as confirmed,
      coalesce(bool_or(e.event_type = 'rule_accepted'), false) as accepted,
      count(*) filter (where e.event_type in ('rule_marked_helpful', 'rule_marked_harmful'))
        as marked
    from memory_events e
    where e.tenant_id = :tenant_id and e.memory_id = b.id
  ) told
  cross join lateral (
    select
      (
        select count(*) from counted_reports(:tenant_id, b.id) c where c.outcome = 'helpful'
      ) as helpful,
      (
        select count(*) from counted_reports(:tenant_id, b.id) c where c.outcome = 'harmful'
      ) as harmful,
      (
        select count(*) from rule_applications a
        where a.tenant_id = :tenant_id and a.rule_id = b.id
      ) as reported
  ) marks
),
found as (
  select f.fault, m.id::text as id, f.expected, f.was
  from replayed r
  join rules m on m.tenant_id = :tenant_id and m.id = r.id
  cross join lateral (
    values
      ('uncreated', r.created is null, 'rule_created', 'none'),
      (
        'state', coalesce(r.state, 'active') <> rule_state(m.metadata),
        coalesce(r.state, 'active'), rule_state(m.metadata)
      ),
      ('maturity', r.maturity <> m.maturity, r.maturity, m.maturity),
      (
        'confirmed', r.confirmed is not null
          and (r.confirmed #>> '{}')::timestamptz is distinct from m.last_confirmed_at,
        r.confirmed #>> '{}', m.last_confirmed_at::text
      ),
      (
        'quarantine',
        (r.created ? 'quarantined' and not r.accepted) <> (m.quarantined is not null),
        case when m.quarantined is null then 'quarantined' else 'released' end,
        case when m.quarantined is null then 'released' else 'quarantined' end
      ),
      (
        'marks', r.marked = r.reported
          and (r.helpful <> m.success_count or r.harmful <> m.harmful_count),
        format('%s helpful and %s harmful', r.helpful, r.harmful),
        format('%s helpful and %s harmful', m.success_count, m.harmful_count)
      ),
      (
        'reports', r.marked < r.reported or r.marked > r.reported and not exists (
          select from memory_events e
          where e.tenant_id = :tenant_id and e.memory_id = m.id
            and e.event_type in ('rule_marked_helpful', 'rule_marked_harmful') and {erased}
        ), r.marked::text, r.reported::text
      )
  ) f (fault, is_wrong, expected, was)
  where f.is_wrong
)
{report}
