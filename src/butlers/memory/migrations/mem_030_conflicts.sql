-- subjects --
-- What two facts are to each other is told of too.
alter table memory_events drop constraint memory_events_memory_type;
alter table memory_events add constraint memory_events_memory_type check (
  memory_type in (
    'episode', 'fact', 'rule', 'entity', 'link', 'proposal', 'project', 'conflict'
  )
);

-- conflicts --
-- Pairs of facts that exclude each other or say the same, and what somebody said of them. They go
-- with either fact; while one of them does not hold, nothing is to be said.
create table memory_conflicts (
  tenant_id text not null,
  id uuid not null,
  kind text not null,
  newer_id uuid not null,
  older_id uuid not null,
  why text not null,
  score double precision not null,
  created_at timestamptz not null,
  settled_as text,
  settled_at timestamptz,
  settled_by text,
  primary key (tenant_id, id),
  constraint memory_conflicts_tenant_named check (tenant_id <> ''),
  constraint memory_conflicts_kind check (kind in ('conflict', 'same')),
  constraint memory_conflicts_settled_as
    check (settled_as in ('newer', 'older', 'both', 'since', 'same')),
  constraint memory_conflicts_settled
    check ((settled_as is null) = (settled_at is null)),
  constraint memory_conflicts_newer_same_tenant foreign key (tenant_id, newer_id)
    references facts (tenant_id, id) on delete cascade deferrable,
  constraint memory_conflicts_older_same_tenant foreign key (tenant_id, older_id)
    references facts (tenant_id, id) on delete cascade deferrable
);
create unique index memory_conflicts_once
on memory_conflicts (tenant_id, least(newer_id, older_id), greatest(newer_id, older_id));
create index memory_conflicts_newer on memory_conflicts (tenant_id, newer_id);
create index memory_conflicts_older on memory_conflicts (tenant_id, older_id);
create index memory_conflicts_open on memory_conflicts (tenant_id, created_at desc, id)
where settled_as is distinct from 'both';

-- predicates --
-- How many values a predicate has at a time, as somebody told or as settling showed.
create table memory_predicates (
  tenant_id text not null,
  predicate text not null,
  holds text not null,
  told boolean not null,
  told_by text not null,
  created_at timestamptz not null,
  primary key (tenant_id, predicate),
  constraint memory_predicates_tenant_named check (tenant_id <> ''),
  constraint memory_predicates_holds check (holds in ('one', 'many'))
);

-- own_tenant --
-- As closed as the memories they are about.
alter table {table} enable row level security, force row level security;
create policy {table}_own_tenant on {table}
using (tenant_id = (select proven_tenant())) with check (tenant_id = (select proven_tenant()));

-- rights --
-- What was found stays, unless a fact of it goes; what was told of predicates may be taken back.
grant select, insert, update on memory_conflicts to butlers_runtime;
grant select, insert, update, delete on memory_predicates to butlers_runtime;

-- beside --
-- What is known of one who is no entity is found by its name.
create index facts_active_subject on facts (tenant_id, subject, created_at desc)
where validity = 'active' and entity_id is null;

-- are_together --
-- Whether two facts are believed to hold at the same time.
create function are_together(one facts, other facts) returns boolean
language sql immutable parallel safe
return (one).validity = 'active' and (other).validity = 'active'
  and tstzrange((one).valid_from, (one).valid_to)
    && tstzrange((other).valid_from, (other).valid_to);
