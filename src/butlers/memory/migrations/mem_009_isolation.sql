-- memory_tenants --
-- Workers walk every tenant, but no tenant may learn of another: the list is kept by triggers in
-- a table the runtime role cannot read, and handed out by one function.
create table memory_tenants (
  tenant text primary key,
  first_seen_at timestamptz not null default now()
);
insert into memory_tenants (tenant)
select tenant_id from episodes union select tenant_id from facts
union select tenant_id from rules union select tenant_id from entities;
create function note_tenants() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
    begin
      insert into memory_tenants (tenant)
      select distinct tenant_id from inserted
      where not exists (select from memory_tenants where tenant = inserted.tenant_id)
      on conflict do nothing;
      return null;
    end
    $$;
create trigger episodes_note_tenant after insert on episodes referencing new table as inserted
for each statement execute function note_tenants();
create trigger facts_note_tenant after insert on facts referencing new table as inserted
for each statement execute function note_tenants();
create trigger rules_note_tenant after insert on rules referencing new table as inserted
for each statement execute function note_tenants();
create trigger entities_note_tenant after insert on entities referencing new table as inserted
for each statement execute function note_tenants();
create function memory_tenant_names() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
  select tenant from memory_tenants order by tenant;
end;
revoke all on memory_tenants from public;
revoke all on function memory_tenant_names() from public;
grant execute on function memory_tenant_names() to butlers_runtime;

-- own_tenant --
-- A tenant's rows are invisible and untouchable outside a transaction that names it.
alter table {table} enable row level security, force row level security;
create policy {table}_own_tenant on {table}
using (tenant_id = current_setting('butlers.tenant', true))
with check (tenant_id = current_setting('butlers.tenant', true));
alter table {table} add constraint {table}_tenant_named check (tenant_id <> '');
grant select, insert on {table} to butlers_runtime;

-- rights --
-- Only episodes are ever deleted, and what is append-only is not updated.
grant usage on schema public to butlers_runtime;
grant update on episodes, facts, rules, entities, memory_links, embedding_versions
to butlers_runtime;
grant delete on episodes to butlers_runtime;

-- append_only --
-- Not even the owner rewrites history by accident.
create function refuse_rewriting_history() returns trigger language plpgsql as $$
    begin
      raise exception '% is append-only: % refused', tg_table_name, tg_op
      using errcode = 'integrity_constraint_violation';
    end
    $$;
create trigger memory_events_append_only before update or delete on memory_events
for each statement execute function refuse_rewriting_history();
create trigger rule_applications_append_only before update or delete on rule_applications
for each statement execute function refuse_rewriting_history();

-- indexable --
-- Under row-level security an index serves only conditions that cannot leak a row's content: text
-- matching raises no error that could, but PostgreSQL has it unmarked.
do $$
begin
  -- Only a superuser may say so; elsewhere keyword search reads the tenant's rows instead.
  if (select rolsuper from pg_roles where rolname = current_user) then
    alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof;
  end if;
end
$$;
