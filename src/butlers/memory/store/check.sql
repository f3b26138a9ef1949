-- {kind}: episode, fact, rule --
-- {batch_of_{kind}s} --
-- The next rows of a table in the order of their ids.
with batch as materialized (
  select m.id, m.id::text collate "C" as key
  from {kind}s m
  where m.tenant_id = :tenant_id
    and m.id > coalesce(nullif(:after::text, ''), '00000000-0000-0000-0000-000000000000')::uuid
  order by m.id
  limit :limit
)

-- {findings} --
-- How many rows were looked at, where the next batch begins, and the findings.
select (select count(*) from batch) as checked, (select max(b.key) from batch b) as last,
  (select count(*) from found) as faulty,
  (select coalesce(array_agg(distinct f.id), '{}') from found f) as ids,
  (
    select coalesce(jsonb_agg(jsonb_build_object(
      'fault', f.fault, 'id', f.id, 'expected', f.expected, 'found', f.was
    ) order by f.id, f.fault), '[]')
    from (select fault, id, expected, was from found order by id, fault limit :most) f
  ) as findings

-- {report} --
-- The findings, of a part that has no words.
{findings}, 0 as words

-- {erased} --
-- Whether an erasure names the event `e`.
exists (
    select from memory_events t
    where t.tenant_id = :tenant_id and t.event_type = 'memory_erased'
      and t.payload -> 'event_ids' ? e.id::text
  )

-- {moved_at} --
-- When an event says that a memory was confirmed last, as JSON; null if it does not say.
case jsonb_typeof(e.payload -> 'last_confirmed_at')
        when 'object' then e.payload #> '{last_confirmed_at,to}'
        else e.payload -> 'last_confirmed_at'
      end

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

-- check_entities --
-- Compare entities with the events that made them what they are.
with batch as materialized (
  select m.id, m.id::text collate "C" as key, m.canonical_name, m.entity_type, m.aliases, m.metadata
  from entities m
  where m.tenant_id = :tenant_id
    and m.id > coalesce(nullif(:after::text, ''), '00000000-0000-0000-0000-000000000000')::uuid
  order by m.id
  limit :limit
),
replayed as materialized (
  select b.id, b.canonical_name, b.entity_type, b.aliases, b.metadata ->> 'merged_into' as target,
    told.created, told.name, told.parted
  from batch b
  cross join lateral (
    select bool_or(e.event_type = 'entity_created') as created,
      (array_agg(
        coalesce(e.payload ->> 'canonical_name', e.payload #>> '{to,canonical_name}')
        order by e.sequence desc
      ) filter (
        where e.event_type = 'entity_created' or e.payload #> '{to,canonical_name}' is not null
          or jsonb_typeof(e.payload -> 'to') = 'string' and e.event_type = 'entity_updated'
      ))[1] as name,
      coalesce(max(e.sequence) filter (where e.event_type = 'entity_parted'), 0) as parted
    from memory_events e
    where e.tenant_id = :tenant_id and e.memory_id = b.id
  ) told
),
found as (
  select f.fault, r.id::text as id, f.expected, f.was
  from replayed r
  cross join lateral (
    values
      ('uncreated', r.created is not true, 'entity_created', 'none'),
      (
        'name', digest_of_text(r.name) <> digest_of_text(r.canonical_name),
        'the name its events give it', 'another'
      ),
      (
        'merge', r.target is not null and not exists (
          select from memory_events e
          where e.tenant_id = :tenant_id and e.memory_id = r.target::uuid
            and e.event_type = 'entity_merge' and e.sequence > r.parted
            and e.payload ->> 'source_entity_id' = r.id::text
        ), 'entity_merge', 'none'
      ),
      (
        'target', r.target is not null and not exists (
          select from entities e where e.tenant_id = :tenant_id and e.id = r.target::uuid
        ), r.target, 'none'
      ),
      (
        'names', r.entity_type = 'person' and exists (
          select from unnest(r.canonical_name::text || r.aliases) as each (name)
          cross join name_words(each.name) as word
          where not exists (
            select from index_names n where n.tenant_id = :tenant_id and n.name = word
          )
        ), 'every word of its names in index_names', 'some are missing'
      )
  ) f (fault, is_wrong, expected, was)
  where f.is_wrong
)
{report}

-- {matter}: proposal, conflict --
-- {decided_proposal} --
-- What the row of a proposal says of it.
m.status

-- {decided_conflict} --
-- What the row of a conflict says of it.
coalesce(m.settled_as, 'open')

-- check_{matter}s --
-- Compare what waits for a decision with the events that say how it was decided.
with batch as materialized (
  select m.id, m.id::text collate "C" as key, {decided_{matter}} as decided
  from memory_{matter}s m
  where m.tenant_id = :tenant_id
    and m.id > coalesce(nullif(:after::text, ''), '00000000-0000-0000-0000-000000000000')::uuid
  order by m.id
  limit :limit
),
found as (
  select case when told.decided is null then 'uncreated' else 'status' end as fault,
    b.id::text as id, coalesce(told.decided, 'an event that made it') as expected, b.decided as was
  from batch b
  cross join lateral (
    select (array_agg(e.payload ->> 'to' order by e.sequence desc))[1] as decided
    from memory_events e
    where e.tenant_id = :tenant_id and e.memory_id = b.id and e.memory_type = '{matter}'
  ) told
  where told.decided is distinct from b.decided
)
{report}

-- check_links --
-- Check that both ends of links exist or existed, and that an event or a row accounts for each.
with batch as materialized (
  select l.source_type, l.source_id, l.target_type, l.target_id, l.relation,
    concat_ws(' ', l.source_type, l.source_id, l.target_type, l.target_id) collate "C" as key
  from memory_links l
  where l.tenant_id = :tenant_id and (
    :after::text = '' or (l.source_type, l.source_id, l.target_type, l.target_id) > (
      split_part(:after, ' ', 1), nullif(split_part(:after, ' ', 2), '')::uuid,
      split_part(:after, ' ', 3), nullif(split_part(:after, ' ', 4), '')::uuid
    )
  )
  order by l.source_type, l.source_id, l.target_type, l.target_id
  limit :limit
),
found as (
  select f.fault, b.key as id, f.expected, f.was
  from batch b
  cross join lateral (
    values
      (
        'no_source', not exists (
          select from memory_events e
          where e.tenant_id = :tenant_id and e.memory_id = b.source_id
            and e.event_type = b.source_type || '_created'
        ), b.source_type, 'none'
      ),
      (
        'no_target', not exists (
          select from memory_events e
          where e.tenant_id = :tenant_id and e.memory_id = b.target_id
            and e.event_type = b.target_type || '_created'
        ), b.target_type, 'none'
      ),
      (
        'unexplained', not exists (
          select from memory_events e
          where e.tenant_id = :tenant_id and e.memory_id = b.source_id and (
            e.event_type = 'link_created' and e.payload ->> 'target_id' = b.target_id::text
            or b.relation = 'derived_from' and (
              e.payload ->> 'source_episode_id' = b.target_id::text
              or e.payload -> 'inherited' ? b.target_id::text
            )
          )
        ) and not (
          b.relation = 'supersedes' and (
            exists (
              select from memory_events e
              where e.tenant_id = :tenant_id and e.memory_id = b.target_id
                and e.payload ->> 'superseded_by' = b.source_id::text
            )
            or exists (
              select from facts m
              where m.tenant_id = :tenant_id and m.id = b.source_id
                and m.supersedes_id = b.target_id
            )
          )
        ), 'an event', 'none'
      )
  ) f (fault, is_wrong, expected, was)
  where f.is_wrong
)
{report}

-- check_bin --
-- Compare the bin with the events that put episodes into it.
with batch as materialized (
  select m.episode_id as id, m.episode_id::text collate "C" as key
  from binned_episodes m
  where m.tenant_id = :tenant_id and m.episode_id
    > coalesce(nullif(:after::text, ''), '00000000-0000-0000-0000-000000000000')::uuid
  order by m.episode_id
  limit :limit
),
found as (
  select 'binned' as fault, b.id::text as id, 'removed' as expected,
    coalesce(told.state, 'no event') as was
  from batch b
  cross join lateral (
    select (array_agg(e.payload ->> 'to' order by e.sequence desc))[1] as state
    from memory_events e
    where e.tenant_id = :tenant_id and e.memory_id = b.id
      and jsonb_typeof(e.payload -> 'to') = 'string'
  ) told
  where told.state is distinct from 'removed'
)
{report}

-- check_events --
-- Find what events created and no event removed or erased, and that is not there.
with batch as materialized (
  select e.id, e.event_type, e.memory_id, e.payload, e.sequence,
    lpad(e.sequence::text, 19, '0') collate "C" as key
  from memory_events e
  where e.tenant_id = :tenant_id and e.sequence > coalesce(nullif(:after::text, ''), '0')::bigint
  order by e.sequence
  limit :limit
),
absent as materialized (
  select e.id, e.event_type, e.memory_id, e.payload, e.sequence
  from batch e
  where case e.event_type
    when 'episode_created' then not exists (
      select from episodes m where m.tenant_id = :tenant_id and m.id = e.memory_id
      union all
      select from binned_episodes m where m.tenant_id = :tenant_id and m.episode_id = e.memory_id
      union all
      select from memory_events gone
      where gone.tenant_id = :tenant_id and gone.memory_id = e.memory_id
        and gone.event_type = 'episode_deleted'
    )
    when 'fact_created' then not exists (
      select from facts m where m.tenant_id = :tenant_id and m.id = e.memory_id
    )
    when 'rule_created' then not exists (
      select from rules m where m.tenant_id = :tenant_id and m.id = e.memory_id
    )
    when 'entity_created' then not exists (
      select from entities m where m.tenant_id = :tenant_id and m.id = e.memory_id
      union all
      select from memory_events gone
      where gone.tenant_id = :tenant_id and gone.memory_id = e.memory_id
        and gone.event_type = 'entity_removed'
    )
    when 'proposal_made' then not exists (
      select from memory_proposals m where m.tenant_id = :tenant_id and m.id = e.memory_id
    )
    when 'conflict_found' then not exists (
      select from memory_conflicts m where m.tenant_id = :tenant_id and m.id = e.memory_id
    ) and (
      select count(*) from facts m
      where m.tenant_id = :tenant_id
        and m.id::text in (e.payload ->> 'newer_id', e.payload ->> 'older_id')
        and m.id in (
          nullif(e.payload ->> 'newer_id', '')::uuid, nullif(e.payload ->> 'older_id', '')::uuid
        )
    ) = 2
    when 'link_created' then not exists (
      select from memory_links l
      where l.tenant_id = :tenant_id and l.source_type = e.payload ->> 'source_type'
        and l.source_id = e.memory_id and l.target_type = e.payload ->> 'target_type'
        and l.target_id = (e.payload ->> 'target_id')::uuid
      union all
      select from memory_events gone
      where gone.tenant_id = :tenant_id and gone.memory_id = e.memory_id
        and gone.event_type = 'link_removed' and gone.sequence > e.sequence
        and gone.payload ->> 'target_id' = e.payload ->> 'target_id'
      union all
      select from memory_events gone
      where gone.tenant_id = :tenant_id and gone.memory_id = (e.payload ->> 'target_id')::uuid
        and gone.event_type = e.payload ->> 'target_type' || '_created'
        and exists (
          select from memory_events t
          where t.tenant_id = :tenant_id and t.event_type = 'memory_erased'
            and t.payload -> 'event_ids' ? gone.id::text
        )
    )
    when 'entity_merge' then exists (
      select from entities m
      where m.tenant_id = :tenant_id and m.id = (e.payload ->> 'source_entity_id')::uuid
        and m.metadata ->> 'merged_into' is null
    ) and not exists (
      select from memory_events gone
      where gone.tenant_id = :tenant_id and gone.event_type = 'entity_parted'
        and gone.memory_id = (e.payload ->> 'source_entity_id')::uuid
        and gone.sequence > e.sequence
    )
    else false
  end
),
found as (
  select 'absent' as fault, e.memory_id::text as id, e.event_type as expected, 'none' as was
  from absent e
  where not {erased}
)
{report}

-- {indexed} --
-- Columns of the index that are copies of a memory's.
i.shown, i.scope, i.confidence, i.decay_rate, i.confirmed_at, i.expires_at, i.created_at,
      i.said_at, i.session_id, i.author, i.entity_id, i.confidence_floor, i.valid_from, i.valid_to,
      i.past, i.length

-- {wanted} --
-- The same columns as the memory has them.
m.shown, m.scope, m.confidence, m.decay_rate, m.confirmed_at, m.expires_at, m.created_at,
      m.said_at, m.session_id, m.author, m.entity_id, m.confidence_floor, m.valid_from, m.valid_to,
      m.past, word_count(m.search_vector)

-- check_index_of_{kind}s --
-- Compare the search index of memories, their words and vectors with the memories.
{batch_of_{kind}s},
indexed as materialized (
  select b.id, i.doc, m.search_vector, m.place, m.session_id, m.author,
    i.place as own_place, ({indexed}) is distinct from ({wanted}) as is_other
  from batch b
  join indexed_memories m
    on m.tenant_id = :tenant_id and m.memory_type = '{kind}' and m.memory_id = b.id
  left join index_memories i
    on i.tenant_id = :tenant_id and i.memory_type = '{kind}' and i.memory_id = b.id
),
found as (
  select f.fault, m.id::text as id, f.expected, f.was
  from indexed m
  cross join lateral (
    values
      ('unindexed', m.doc is null, 'a row', 'none'),
      (
        'index_row', m.doc is not null and (
          m.is_other or m.place is distinct from m.own_place
            and (m.place is not null or m.session_id is null)
        ), 'the values of the memory', 'others'
      ),
      (
        'index_words', m.doc is not null and exists (
          select from unnest(m.search_vector) w
          left join index_words i
            on i.tenant_id = :tenant_id and i.word = w.lexeme and i.doc = m.doc
          where (i.impact, i.place) is distinct from (
            bm25_impact(
              coalesce(array_length(w.positions, 1), 1), word_count(m.search_vector)
            ), coalesce(w.positions[1], 0)::smallint
          )
        ), 'every word of the memory', 'other words'
      ),
      (
        'index_vectors', m.doc is not null and exists (
          select from embedding_versions v
          left join index_vectors i
            on i.tenant_id = :tenant_id and i.version_id = v.id and i.doc = m.doc
          left join {kind}s own
            on own.tenant_id = :tenant_id and own.id = m.id and own.embedding_version_id = v.id
          left join {kind}_vectors aside
            on aside.tenant_id = :tenant_id and aside.{kind}_id = m.id
            and aside.embedding_version_id = v.id and own.id is null
          where v.tenant_id = :tenant_id
            and i.embedding is distinct from coalesce(own.embedding, aside.embedding)::halfvec(384)
        ), 'the vectors of the memory', 'others'
      ),
      (
        'index_names', m.author is not null and exists (
          select from name_words(m.author) as word
          where not exists (
            select from index_names n where n.tenant_id = :tenant_id and n.name = word
          )
        ), 'the name of its author', 'none'
      )
  ) f (fault, is_wrong, expected, was)
  where f.is_wrong
)
{findings}, (select coalesce(sum(length(m.search_vector)), 0) from indexed m) as words

-- check_vectors_of_{kind}s --
-- Check that memories have a vector of the model in use, of its length.
{batch_of_{kind}s},
found as (
  select case when m.embedding is null then 'no_vector' when v.id is null then 'unknown_model'
    else 'vector_length' end as fault, b.id::text as id, coalesce(u.model, v.model) as expected,
    coalesce(vector_dims(m.embedding)::text, 'none') as was
  from batch b
  join {kind}s m on m.tenant_id = :tenant_id and m.id = b.id
  left join embedding_versions v on v.tenant_id = :tenant_id and v.id = m.embedding_version_id
  left join embedding_versions u on u.tenant_id = :tenant_id and u.state = 'current'
  where case
    when m.embedding is not null
      then v.id is null or vector_dims(m.embedding) <> v.dimensions
        or vector_norm(m.embedding) = 0
    else u.id is not null and not exists (
      select from {kind}_vectors aside
      where aside.tenant_id = :tenant_id and aside.{kind}_id = m.id
        and aside.embedding_version_id = u.id
    )
  end
)
{report}

-- check_indexed --
-- Find rows of the search index whose memory is gone.
with batch as materialized (
  select i.doc, i.memory_type, i.memory_id, lpad(i.doc::text, 19, '0') collate "C" as key
  from index_memories i
  where i.tenant_id = :tenant_id and i.doc > coalesce(nullif(:after::text, ''), '0')::bigint
  order by i.doc
  limit :limit
),
found as (
  select 'surplus_row' as fault, b.doc::text as id, b.memory_type as expected, 'none' as was
  from batch b
  where case b.memory_type
    when 'episode' then not exists (
      select from episodes m where m.tenant_id = :tenant_id and m.id = b.memory_id
    )
    when 'fact' then not exists (
      select from facts m where m.tenant_id = :tenant_id and m.id = b.memory_id
    )
    else not exists (
      select from rules m where m.tenant_id = :tenant_id and m.id = b.memory_id
    )
  end
)
{report}

-- check_words --
-- Find words of the search index that no memory has.
with batch as materialized (
  select w.word, w.doc, w.word || chr(31) || lpad(w.doc::text, 19, '0') as key
  from index_words w
  where w.tenant_id = :tenant_id and (
    :after::text = '' or (w.word, w.doc) > (
      split_part(:after, chr(31), 1) collate "C",
      coalesce(nullif(split_part(:after, chr(31), 2), ''), '0')::bigint
    )
  )
  order by w.word, w.doc
  limit :limit
),
found as (
  select 'surplus_word' as fault, b.doc || chr(31) || b.word as id, 'a memory' as expected,
    'none' as was
  from batch b
  left join index_memories i on i.tenant_id = :tenant_id and i.doc = b.doc
  where b.word <> all(coalesce(tsvector_to_array(case i.memory_type
    when 'episode' then (
      select m.search_vector from episodes m where m.tenant_id = :tenant_id and m.id = i.memory_id
    )
    when 'fact' then (
      select m.search_vector from facts m where m.tenant_id = :tenant_id and m.id = i.memory_id
    )
    when 'rule' then (
      select m.search_vector from rules m where m.tenant_id = :tenant_id and m.id = i.memory_id
    )
  end), '{}'))
)
{report}

-- check_vectors --
-- Find vectors of the search index that no memory has.
with batch as materialized (
  select v.version_id, v.doc, v.version_id || ' ' || lpad(v.doc::text, 19, '0') as key
  from index_vectors v
  where v.tenant_id = :tenant_id and (
    :after::text = '' or (v.version_id, v.doc) > (
      nullif(split_part(:after, ' ', 1), '')::uuid,
      coalesce(nullif(split_part(:after, ' ', 2), ''), '0')::bigint
    )
  )
  order by v.version_id, v.doc
  limit :limit
),
found as (
  select 'surplus_vector' as fault, b.doc || chr(31) || b.version_id as id, 'a memory' as expected,
    'none' as was
  from batch b
  left join index_memories i on i.tenant_id = :tenant_id and i.doc = b.doc
  left join embedding_versions v on v.tenant_id = :tenant_id and v.id = b.version_id
  where i.doc is null or v.id is null
)
{report}

-- count_words --
-- Count the words in the search index.
select count(*) from index_words where tenant_id = :tenant_id

-- get_ends --
-- The last place in the audit log and in the search index.
select
  (
    select e.sequence from memory_events e
    where e.tenant_id = :tenant_id order by e.sequence desc limit 1
  ) as memory_events,
  (
    select i.doc from index_memories i where i.tenant_id = :tenant_id order by i.doc desc limit 1
  ) as index_memories

-- repair_index_of_{kind}s_1 --
-- Put memories into the search index that are not in it.
select add_to_index(:tenant_id, '{kind}', each.id)
from unnest(:ids::text[]::uuid[]) as each (id)
where not exists (
  select from index_memories i
  where i.tenant_id = :tenant_id and i.memory_type = '{kind}' and i.memory_id = each.id
)
order by each.id

-- repair_index_of_{kind}s_2 --
-- Copy the values of memories to the search index; a position once taken in a session stays.
update index_memories i
set shown = m.shown, scope = m.scope, confidence = m.confidence, decay_rate = m.decay_rate,
  confirmed_at = m.confirmed_at, expires_at = m.expires_at, created_at = m.created_at,
  said_at = m.said_at, session_id = m.session_id, author = m.author, entity_id = m.entity_id,
  confidence_floor = m.confidence_floor, valid_from = m.valid_from, valid_to = m.valid_to,
  past = m.past, length = word_count(m.search_vector),
  place = case when m.session_id is null then m.place else coalesce(m.place, i.place) end
from unnest(:ids::text[]::uuid[]) as each (id)
join indexed_memories m
  on m.tenant_id = :tenant_id and m.memory_type = '{kind}' and m.memory_id = each.id
where i.tenant_id = :tenant_id and i.memory_type = '{kind}' and i.memory_id = each.id

-- repair_index_of_{kind}s_3 --
-- Delete the words of memories from the search index.
delete from index_words w
using index_memories i
where w.tenant_id = :tenant_id and w.doc = i.doc
  and i.tenant_id = :tenant_id and i.memory_type = '{kind}'
  and i.memory_id = any(:ids::text[]::uuid[])

-- repair_index_of_{kind}s_4 --
-- Put the words and vectors of memories into the search index.
select add_words(:tenant_id, i.doc, m.search_vector, i.length),
  sync_vectors(:tenant_id, '{kind}', m.memory_id), add_names(:tenant_id, array[m.author])
from index_memories i
join indexed_memories m
  on m.tenant_id = :tenant_id and m.memory_type = '{kind}' and m.memory_id = i.memory_id
where i.tenant_id = :tenant_id and i.memory_type = '{kind}'
  and i.memory_id = any(:ids::text[]::uuid[])
order by i.doc

-- repair_entities_1 --
-- Put the names of people into the search index.
select add_names(:tenant_id, p.canonical_name::text || p.aliases)
from entities p
where p.tenant_id = :tenant_id and p.id = any(:ids::text[]::uuid[]) and p.entity_type = 'person'
order by p.id

-- repair_indexed_1 --
-- Delete rows of the search index whose memory is gone.
delete from index_memories
where tenant_id = :tenant_id and doc = any(:ids::text[]::bigint[])

-- repair_words_1 --
-- Delete words of the search index that no memory has.
delete from index_words w
using unnest(:ids::text[]) as surplus (id)
where w.tenant_id = :tenant_id and w.word = split_part(surplus.id, chr(31), 2)
  and w.doc = split_part(surplus.id, chr(31), 1)::bigint

-- repair_vectors_1 --
-- Delete vectors of the search index that no memory has.
delete from index_vectors v
using unnest(:ids::text[]) as surplus (id)
where v.tenant_id = :tenant_id and v.version_id = split_part(surplus.id, chr(31), 2)::uuid
  and v.doc = split_part(surplus.id, chr(31), 1)::bigint
