-- binned_episodes --
-- What the cleanup removed, until the bin is emptied. A table of its own: whatever reads episodes
-- sees none of them. Vectors and words are made anew from the text.
create table binned_episodes (
  tenant_id text not null,
  episode_id uuid not null,
  binned_at timestamptz not null,
  reason text not null,
  episode jsonb not null,
  primary key (tenant_id, episode_id),
  constraint binned_episodes_reason check (reason in ('expired', 'evicted')),
  constraint binned_episodes_tenant_named check (tenant_id <> '')
);
create index binned_episodes_order on binned_episodes (tenant_id, binned_at, episode_id);

-- own_tenant --
-- The bin is as closed as what lies in it.
alter table binned_episodes enable row level security, force row level security;
create policy binned_episodes_own_tenant on binned_episodes
using (tenant_id = current_setting('butlers.tenant', true))
with check (tenant_id = current_setting('butlers.tenant', true));
grant select, insert, delete on binned_episodes to butlers_runtime;

-- unread --
-- What nobody has read is counted often, and is mostly little.
create index episodes_unread on episodes (tenant_id, created_at, id)
where consolidation_status <> 'consolidated';
