-- floors --
-- What a rule keeps of its confidence by its maturity, however long nobody confirms it: an
-- established one is not forgotten, a proven one is still told, a warning does not fade.
alter table rules
add column confidence_floor float not null generated always as (
  confidence * case maturity
    when 'established' then 0.2
    when 'proven' then 0.5
    when 'anti_pattern' then 1.0
    else 0.0
  end
) stored;

-- effective_confidence --
-- The same of what keeps some of its confidence.
create function effective_confidence(
  confidence float, decay_rate float, confirmed_at timestamptz, at timestamptz, floor float
) returns float
language sql immutable parallel safe
return greatest(floor, effective_confidence(confidence, decay_rate, confirmed_at, at));

-- index --
-- The index knows what a rule keeps.
alter table index_memories add column confidence_floor float not null default 0.0;

-- lifted --
-- A rule that rises or falls does so in the index at once.
create function index_lifted() returns trigger language plpgsql as $$
    begin
      update index_memories set confidence_floor = new.confidence_floor
      where tenant_id = new.tenant_id and memory_type = 'rule' and memory_id = new.id;
      return null;
    end
    $$;
create trigger rules_index_lifted after insert on rules
for each row when (new.confidence_floor > 0) execute function index_lifted();
create trigger rules_index_moved after update of maturity, confidence on rules
for each row when (old.confidence_floor is distinct from new.confidence_floor)
execute function index_lifted();

-- tenants --
-- Every tenant there is.
select memory_tenant_names() as tenant

-- act_for --
-- From here on only this tenant's rows exist, also for an owner whom the policies bind.
select act_for(:tenant, 'migration', tenant_proof(:tenant, 'migration'))

-- helped --
-- Whoever said that a rule helped confirmed it.
update rules set last_confirmed_at = marked.at
from (
  select r.id, max(m.created_at) as at
  from rules r
  cross join lateral counted_marks(:tenant, r.id) m
  where r.tenant_id = :tenant and m.outcome = 'helpful'
  group by r.id
) marked
where rules.tenant_id = :tenant and rules.id = marked.id
  and coalesce(rules.last_confirmed_at, '-infinity') < marked.at

-- entered --
-- What rules keep enters the index.
update index_memories i set confidence_floor = r.confidence_floor
from rules r
where i.tenant_id = :tenant and i.memory_type = 'rule' and r.tenant_id = :tenant
  and r.id = i.memory_id and r.confidence_floor > 0
