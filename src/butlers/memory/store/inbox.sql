-- {waiting} --
-- What waits for a person: each memory or conflict, its other side, and why it waits.
(
  select 'quarantined' as kind, id, memory_type, subject, predicate,
    left(content, :excerpt) as content, null as other, quarantined as why, origin, stored_by,
    scope, created_at as since
  from {held}
  union all
  select 'proposal', p.id,
    coalesce(p.target_type, case p.kind when 'new_rule' then 'rule' else 'fact' end),
    coalesce(p.proposed ->> 'subject', f.subject),
    coalesce(p.proposed ->> 'predicate', f.predicate),
    left(coalesce(p.proposed ->> 'content', f.content, r.content), :excerpt),
    case
      when jsonb_exists(p.proposed, 'content') then left(coalesce(f.content, r.content), :excerpt)
    end,
    p.reason, p.proposed ->> 'origin', p.proposed_by,
    coalesce(p.proposed ->> 'scope', f.scope, r.scope), p.created_at
  from memory_proposals p
  left join facts f
    on f.tenant_id = :tenant_id and p.target_type = 'fact' and f.id = p.target_id
  left join rules r
    on r.tenant_id = :tenant_id and p.target_type = 'rule' and r.id = p.target_id
  where p.tenant_id = :tenant_id and p.status = 'waiting'
  union all
  select case c.kind when 'same' then 'duplicate' else c.kind end, c.id, 'fact', n.subject,
    n.predicate, left(n.content, :excerpt),
    o.subject || ' ' || o.predicate || ': ' || left(o.content, :excerpt), c.why, n.origin,
    n.stored_by, n.scope, c.created_at
  {sides} and {open}
  union all
  select 'in_doubt', d.id, d.memory_type, d.subject, d.predicate, d.content,
    (
      select string_agg(g.content, '; ' order by g.id) from (
        select id, left(content, :excerpt) as content from facts
        where tenant_id = :tenant_id and id = any(d.in_doubt)
        union all
        select id, left(content, :excerpt) from rules
        where tenant_id = :tenant_id and id = any(d.in_doubt)
      ) g
    ),
    'it depends on something that is no longer current', d.origin, d.stored_by, d.scope,
    d.created_at
  from {doubt}
  where d.in_doubt is not null
  union all
  select 'reported_harmful', r.id, 'rule', null, null, left(r.content, :excerpt), null,
    concat_ws(
      ': ', 'marked harmful ' || r.harmful_count || ' times',
      (
        select string_agg(reason, '; ' order by place)
        from jsonb_array_elements_text(r.metadata -> 'harmful_reasons')
          with ordinality as given (reason, place)
      )
    ),
    r.origin, r.stored_by, r.scope, r.last_evaluated_at
  from rules r
  where r.tenant_id = :tenant_id and r.metadata -> 'reported_harmful' = 'true'
    and r.quarantined is null and rule_state(r.metadata) <> 'forgotten'
) waiting

-- {dependent} --
-- What depends on something, and so may be in doubt.
with resting (kind, id) as (
  select distinct source_type, source_id from memory_links
  where tenant_id = :tenant_id and relation = 'depends_on'
)

-- find --
-- Find what waits for a person, the longest waiting first.
{dependent}
select kind, id, memory_type, subject, predicate, content, other, why, origin, stored_by, scope,
  since
from {waiting}
where (:kind::text is null or kind = :kind)
order by since, id
limit :limit

-- count --
-- Count what waits for a person by kind.
{dependent}
select kind, count(*) as number
from {waiting}
group by kind
order by kind
