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

-- repair_entities_1 --
-- Put the names of people into the search index.
select add_names(:tenant_id, p.canonical_name::text || p.aliases)
from entities p
where p.tenant_id = :tenant_id and p.id = any(:ids::text[]::uuid[]) and p.entity_type = 'person'
order by p.id
