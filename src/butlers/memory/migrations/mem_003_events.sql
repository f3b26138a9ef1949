-- memory_events --
-- Every change, told in order.
create table memory_events (
  id uuid primary key default gen_random_uuid(),
  event_type text not null,
  actor text,
  tenant_id text,
  payload jsonb not null default '{}',
  created_at timestamptz not null default now()
);
create index memory_events_type on memory_events (event_type, created_at desc);
create index memory_events_tenant on memory_events (tenant_id, created_at desc);
