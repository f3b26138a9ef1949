-- projects --
-- What sessions worked in. `keys` is what one is known by, wherever it lies; one that was moved is
-- a part of another, and what is in a shared one is seen from all.
create table projects (
  tenant_id text not null,
  id text not null,
  name text not null,
  keys text[] not null,
  places text[] not null,
  shared boolean not null default false,
  moved_to text,
  created_at timestamptz not null,
  last_seen_at timestamptz not null,
  primary key (tenant_id, id),
  constraint projects_tenant_named check (tenant_id <> ''),
  constraint projects_known check (cardinality(keys) > 0),
  constraint projects_moved foreign key (tenant_id, moved_to) references projects (tenant_id, id)
);
alter table projects enable row level security, force row level security;
create policy projects_own_tenant on projects
using (tenant_id = current_setting('butlers.tenant', true))
with check (tenant_id = current_setting('butlers.tenant', true));
grant select, insert, update on projects to butlers_runtime;

-- is_asked --
-- Whether a scope is one of those a question is asked from: the character between them (unit
-- separator) stands in none. A star before them stands for all that are no project's.
create function is_asked(scope text, by_scope text) returns boolean
language sql immutable parallel safe
return scope = any(string_to_array(by_scope, chr(31)))
  or (starts_with(by_scope, '*' || chr(31)) and not starts_with(scope, 'project:'));

-- is_seen --
-- Whoever names scopes sees them and what is global; whoever names none sees every one.
create or replace function is_seen(scope text, by_scope text) returns boolean
language sql immutable parallel safe
return by_scope is null or scope = 'global' or is_asked(scope, by_scope);

-- is_found --
-- Whether a search may show a memory of the index: of the kinds wanted, shown at all, not past its
-- time, seen from where it is asked (an episode from its own scope alone) and sure enough.
create or replace function is_found(
  m index_memories, types text[], by_scope text, least_confidence float, at timestamptz
) returns boolean
language sql immutable parallel safe
return (m).shown and (m).memory_type = any(types)
  and episode_state((m).expires_at, at) <> 'expired'
  and case
    when (m).memory_type = 'episode' then by_scope is null or is_asked((m).scope, by_scope)
    else is_seen((m).scope, by_scope)
  end
  and effective_confidence((m).confidence, (m).decay_rate, (m).confirmed_at, at)
    >= least_confidence;
