-- count --
-- All counts of a tenant, and when one of its episodes was last consolidated; without a scope facts
-- and rules of every scope are counted.
select
  (
    select jsonb_build_object(
      'total', count(*),
      'unconsolidated', count(*) filter (
        where consolidation_status = 'pending' and quarantined is null
      ),
      'consolidated', count(*) filter (where consolidation_status = 'consolidated'),
      'failed', count(*) filter (where consolidation_status = 'failed'),
      'dead_letter', count(*) filter (where consolidation_status = 'dead_letter'),
      'backlog_age_hours', extract(
        epoch from :now::timestamptz
          - min(least(created_at, :now)) filter (
            where consolidation_status = 'pending' and quarantined is null
          )
      )::float / 3600.0
    )
    from episodes
    where tenant_id = :tenant_id
  ) as episodes,
  (
    -- Apart, so that each is counted from an index: a fact's row is mostly its vector.
    select jsonb_build_object(
      'active', held.active - faded.fading,
      'fading', faded.fading,
      'superseded', held.superseded,
      'expired', held.expired,
      'retracted', held.retracted
    )
    from (
      select
        count(*) filter (where validity = 'active') as active,
        count(*) filter (where validity = 'superseded') as superseded,
        count(*) filter (where validity = 'expired') as expired,
        count(*) filter (where validity = 'retracted') as retracted
      from facts
      where tenant_id = :tenant_id and is_visible_scope(scope, :scope)
    ) held
    cross join (
      select count(*) as fading
      from facts
      where tenant_id = :tenant_id and is_visible_scope(scope, :scope)
        and fact_state(validity, metadata) = 'fading'
    ) faded
  ) as facts,
  (
    select jsonb_build_object(
      'candidate', count(*) filter (where standing = 'candidate'),
      'established', count(*) filter (where standing = 'established'),
      'proven', count(*) filter (where standing = 'proven'),
      'anti_pattern', count(*) filter (where standing = 'anti_pattern'),
      'forgotten', count(*) filter (where standing = 'forgotten')
    )
    from (
      select case rule_state(metadata) when 'forgotten' then 'forgotten' else maturity end as standing
      from rules
      where tenant_id = :tenant_id and is_visible_scope(scope, :scope) and quarantined is null
      offset 0 -- said once per rule, not once per count
    ) counted
  ) as rules,
  (
    select created_at
    from memory_events
    where tenant_id = :tenant_id and event_type = 'episode_consolidated'
    order by sequence desc
    limit 1
  ) as last_consolidated_at
