-- {same_tenant} --
-- Whoever calls acts for this tenant.
if tenant is distinct from proven_tenant() then
        raise exception 'it is not proven who is acted for'
        using errcode = 'insufficient_privilege';
      end if

-- {definer} --
-- Checked where the tenant's rows are, which may be another server than the one that is asked.
language plpgsql set search_path = public, pg_temp

-- table_called --
-- What a table is called that may be one of many with a number behind its name.
create function table_called(name text) returns text
language sql immutable parallel safe
return regexp_replace(name, '_[0-9]+$', '');

-- called --
-- Triggers know a memory by the name of its table.
do $$
    declare
      watcher regprocedure;
    begin
      foreach watcher in array array[
        'index_inserted()', 'index_reworded()', 'index_embedded()', 'index_deleted()',
        'refuse_rewriting_history()'
      ]::regprocedure[] loop
        execute replace(replace(
          pg_get_functiondef(watcher), 'rtrim(tg_table_name', 'rtrim(table_called(tg_table_name)'
        ), '= tg_table_name then', '= table_called(tg_table_name) then');
      end loop;
    end
    $$;

-- changed --
-- What a search chooses by is kept as the memory has it; a place once taken stays.
create or replace function index_changed() returns trigger language plpgsql as $$
    declare
      kind text := rtrim(table_called(tg_table_name), 's');
      told indexed_memories;
      was index_memories;
    begin
      select m.* into told from indexed_memories m
      where m.tenant_id = new.tenant_id and m.memory_type = kind and m.memory_id = new.id;
      select i.* into was from index_memories i
      where i.tenant_id = new.tenant_id and i.memory_type = kind and i.memory_id = new.id;
      if told.place is null and told.session_id is not distinct from was.session_id then
        told.place := was.place;
      elsif told.place is null then
        told.place := last_place(told.tenant_id, told.session_id) + 1;
      end if;
      update index_memories i
      set shown = told.shown, scope = told.scope, confidence = told.confidence,
        decay_rate = told.decay_rate, confirmed_at = told.confirmed_at,
        expires_at = told.expires_at, created_at = told.created_at, said_at = told.said_at,
        session_id = told.session_id, author = told.author, entity_id = told.entity_id,
        valid_from = told.valid_from, valid_to = told.valid_to, past = told.past,
        place = told.place
      where i.tenant_id = new.tenant_id and i.memory_type = kind and i.memory_id = new.id;
      return null;
    end
    $$;

-- note_tenants --
-- The list of tenants is kept where each tenant is.
create or replace function note_tenants() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
    declare
      seen text;
    begin
      for seen in select distinct i.tenant_id from inserted i loop
        if not exists (select from memory_tenants m where m.tenant = seen) then
          insert into memory_tenants (tenant) values (seen) on conflict do nothing;
        end if;
      end loop;
      return null;
    end
    $$;

-- append_events --
-- Events are told by this alone. Whose they are and who did it was proven; neither can be said.
create function append_events(
  tenant text, what text, request text, subject text, at timestamptz,
  ids uuid[], memories uuid[], payloads jsonb[]
) returns bigint
{definer} as $$
    begin
      {same_tenant};
      return append_events(what, request, subject, at, ids, memories, payloads);
    end
    $$;

-- bring_events --
-- Events come along as they were told, to whoever proves to act as an import.
create function bring_events(tenant text, rows jsonb) returns bigint
{definer} as $$
    begin
      {same_tenant};
      return bring_events(rows);
    end
    $$;

-- erase_event_texts --
-- The events named say no more what anybody said; how many of them did.
create function erase_event_texts(tenant text, event_ids uuid[]) returns bigint
{definer} as $$
    begin
      {same_tenant};
      return erase_event_texts(event_ids);
    end
    $$;

-- erase_rows --
-- The one way in which rows of a tenant are erased; how many there were of each table.
create function erase_rows(tenant text, kind text, which text[]) returns bigint
{definer} as $$
    begin
      {same_tenant};
      return erase_rows(kind, which);
    end
    $$;

-- erase_names --
-- The words of erased names leave the index, unless somebody who stays is named by them too.
create function erase_names(tenant text, names text[]) returns bigint
{definer} as $$
    begin
      {same_tenant};
      return erase_names(names);
    end
    $$;
