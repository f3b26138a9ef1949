-- lineage --
-- An event names the memory and the request it belongs to.
alter table memory_events
add column memory_type text,
add column memory_id uuid,
add column request_id text,
add column sequence bigint,
add constraint memory_events_memory_type
  check (memory_type in ('episode', 'fact', 'rule', 'entity', 'link')),
add constraint memory_events_names_a_memory
  check (memory_type is not null or memory_id is null);

-- sequence --
-- Several events share one instant; the order they were written in is the order of the story.
update memory_events set sequence = told.place
from (
  select id, row_number() over (order by created_at, id) as place from memory_events
) told
where told.id = memory_events.id;
alter table memory_events alter column sequence set not null;
alter table memory_events alter column sequence add generated always as identity;
select setval(
  pg_get_serial_sequence('memory_events', 'sequence'), coalesce(max(sequence), 0) + 1, false
) from memory_events;

-- lookups --
-- The story of a memory, of a request, of a tenant.
create index memory_events_memory on memory_events (tenant_id, memory_id, sequence);
create index memory_events_request on memory_events (tenant_id, request_id)
where request_id is not null;
create index memory_events_order on memory_events (tenant_id, sequence desc);

-- rule_applications --
-- Each time a rule was tried, and how it went.
create table rule_applications (
  id uuid primary key,
  tenant_id text not null,
  rule_id uuid not null,
  outcome text not null,
  reason text,
  context jsonb not null default '{}',
  request_id text,
  actor text,
  created_at timestamptz not null,
  constraint rule_applications_outcome check (outcome in ('helpful', 'harmful')),
  constraint rule_applications_rule_same_tenant
    foreign key (tenant_id, rule_id) references rules (tenant_id, id)
);
create index rule_applications_rule
on rule_applications (tenant_id, rule_id, created_at desc);

-- idempotency --
-- Written once: the same extraction, or the same session, cannot be stored twice.
alter table {table} add column idempotency_key text;
create unique index {table}_idempotency on {table} (tenant_id, idempotency_key)
where idempotency_key is not null;
