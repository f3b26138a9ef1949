-- retracted_fact --
-- A retracted fact, its key, and the state its last retraction took it from.
select id, subject, predicate, scope, entity_id, metadata ->> 'status' = 'fading' as is_fading,
  (
    select payload ->> 'from' from memory_events
    where tenant_id = :tenant_id and memory_id = :id and event_type = 'fact_retracted'
    order by sequence desc
    limit 1
  ) as was
from facts
where tenant_id = :tenant_id and id = :id and validity = 'retracted'

-- key_holder --
-- The active fact under a key.
select id from facts
where tenant_id = :tenant_id and scope = :scope and predicate = :predicate and validity = 'active'
  and case
    when :entity_id::uuid is null then entity_id is null and subject = :subject
    else entity_id = :entity_id
  end

-- restore_fact --
-- A retracted fact is what it was before.
update facts set validity = :validity
where tenant_id = :tenant_id and id = :id and validity = 'retracted'

-- restore_rule --
-- A forgotten rule is in use again.
update rules set metadata = metadata - 'forgotten'
where tenant_id = :tenant_id and id = :id and metadata -> 'forgotten' = 'true'
returning case when metadata ->> 'status' = 'fading' then 'fading' else 'active' end
