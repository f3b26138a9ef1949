-- entities --
-- Persons, organisations, places: each once in its tenant, by name and type.
create table entities (
  id uuid primary key default gen_random_uuid(),
  tenant_id text not null,
  canonical_name varchar not null,
  entity_type varchar not null,
  aliases text[] not null default '{}',
  metadata jsonb not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint entities_name_unique unique (tenant_id, canonical_name, entity_type),
  constraint entities_entity_type check (
    entity_type in ('person', 'organization', 'place', 'other')
  )
);
create index entities_tenant_name on entities (tenant_id, canonical_name);
create index entities_aliases on entities using gin (aliases);
create index entities_metadata on entities using gin (metadata);

-- about --
-- A fact may be about an entity, which then cannot be deleted.
alter table facts
add column entity_id uuid constraint facts_entity references entities (id) on delete restrict;

-- newest --
-- Before uniqueness was enforced two active facts could share a key: the newest one stays.
update facts set validity = 'superseded'
where id in (
  select id from (
    select id, row_number() over (
      partition by scope, subject, predicate order by created_at desc, id
    ) as place
    from facts where validity = 'active'
  ) ranked
  where place > 1
);

-- keys --
-- An active fact is the only one under its key.
create unique index facts_active_entity_key on facts (entity_id, scope, predicate)
where entity_id is not null and validity = 'active';
create unique index facts_active_subject_key on facts (scope, subject, predicate)
where entity_id is null and validity = 'active';
