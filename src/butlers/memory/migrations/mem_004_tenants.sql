-- owned --
-- What was stored before there were tenants belongs to the default one. The default is dropped
-- again at once: from here on a row without a tenant is an error, not a guess.
alter table {table} add column tenant_id text not null default 'default';
alter table {table} alter column tenant_id drop default;

-- events --
-- An event too belongs to a tenant.
update memory_events set tenant_id = 'default' where tenant_id is null or tenant_id = '';
alter table memory_events alter column tenant_id set not null;

-- followers --
-- Entities had tenants before facts did: a fact about one belongs where its entity does. What it
-- came from or replaced may have stayed behind; that is kept as a note instead of a reference.
update facts set tenant_id = entities.tenant_id
from entities where entities.id = facts.entity_id;
update facts set
  metadata = facts.metadata
    || jsonb_build_object('former_source_episode_id', facts.source_episode_id),
  source_episode_id = null
from episodes
where episodes.id = facts.source_episode_id and episodes.tenant_id <> facts.tenant_id;
update facts set
  metadata = facts.metadata
    || jsonb_build_object('former_supersedes_id', facts.supersedes_id),
  supersedes_id = null
from facts replaced
where replaced.id = facts.supersedes_id and replaced.tenant_id <> facts.tenant_id;
update memory_links set tenant_id = facts.tenant_id
from facts where memory_links.source_type = 'fact' and memory_links.source_id = facts.id;

-- references --
-- A reference to another tenant's row is refused by the database, whatever the code does.
alter table episodes add constraint episodes_tenant_id unique (tenant_id, id);
alter table facts add constraint facts_tenant_id unique (tenant_id, id);
alter table rules add constraint rules_tenant_id unique (tenant_id, id);
alter table entities add constraint entities_tenant_id unique (tenant_id, id);
alter table facts add constraint facts_entity_same_tenant
foreign key (tenant_id, entity_id) references entities (tenant_id, id) on delete restrict;
alter table facts add constraint facts_episode_same_tenant
foreign key (tenant_id, source_episode_id) references episodes (tenant_id, id)
on delete set null (source_episode_id);
alter table facts add constraint facts_supersedes_same_tenant
foreign key (tenant_id, supersedes_id) references facts (tenant_id, id)
on delete set null (supersedes_id);
alter table rules add constraint rules_episode_same_tenant
foreign key (tenant_id, source_episode_id) references episodes (tenant_id, id)
on delete set null (source_episode_id);
alter table facts drop constraint facts_source_episode_id_fkey;
alter table facts drop constraint facts_supersedes_id_fkey;
alter table rules drop constraint rules_source_episode_id_fkey;

-- keys --
-- An active fact is the only one under its key in its tenant.
drop index facts_active_entity_key;
drop index facts_active_subject_key;
create unique index facts_active_entity_key on facts (tenant_id, entity_id, scope, predicate)
where entity_id is not null and validity = 'active';
create unique index facts_active_subject_key on facts (tenant_id, scope, subject, predicate)
where entity_id is null and validity = 'active';

-- lookups --
-- Deleting an episode or a fact looks up who refers to it.
create index facts_source_episode on facts (source_episode_id) where source_episode_id is not null;
create index rules_source_episode on rules (source_episode_id) where source_episode_id is not null;
create index facts_supersedes on facts (supersedes_id) where supersedes_id is not null;
create index facts_entity on facts (entity_id) where entity_id is not null;
