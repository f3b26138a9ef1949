-- {tenant} --
-- Whom the transaction acts for.
proven_tenant()

-- deferrable --
-- Rows that are brought along refer to each other in any order: they are checked in the end.
alter table facts
  alter constraint facts_entity_same_tenant deferrable,
  alter constraint facts_episode_same_tenant deferrable,
  alter constraint facts_supersedes_same_tenant deferrable;
alter table rules alter constraint rules_episode_same_tenant deferrable;
alter table rule_applications alter constraint rule_applications_rule_same_tenant deferrable;
alter table projects alter constraint projects_moved deferrable;

-- made_here --
-- The columns of a table that are not taken along: whose it is, what is made anew from the others,
-- and what only the database that holds it can say.
create function made_here(kind text) returns text[]
language sql stable set search_path = public, pg_temp
begin atomic
  select coalesce(array_agg(attname::text order by attnum), '{}')
  from pg_catalog.pg_attribute
  where attrelid = to_regclass(quote_ident(kind)) and attnum > 0 and not attisdropped
    and (attgenerated <> '' or attidentity <> '' or attname in (
      'tenant_id', 'embedding', 'embedding_version_id', 'search_vector', 'leased_until',
      'leased_by'
    ));
end;
grant execute on function made_here(text) to butlers_runtime;

-- portable_columns --
-- The columns of a table that are taken along: all others, so that no new one can be forgotten.
create function portable_columns(kind text) returns text[]
language sql stable set search_path = public, pg_temp
begin atomic
  select array_agg(attname::text order by attnum)
  from pg_catalog.pg_attribute
  where attrelid = to_regclass(quote_ident(kind)) and attnum > 0 and not attisdropped
    and attname <> all(made_here(kind));
end;
grant execute on function portable_columns(text) to butlers_runtime;

-- key_columns --
-- What tells one row of a table from another within a tenant.
create function key_columns(kind text) returns text[]
language sql stable set search_path = public, pg_temp
begin atomic
  select array_agg(a.attname::text order by a.attnum)
  from pg_catalog.pg_index i
  join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
  where i.indrelid = to_regclass(quote_ident(kind)) and i.indisprimary
    and a.attname <> 'tenant_id';
end;
grant execute on function key_columns(text) to butlers_runtime;

-- bring_rows --
-- Rows that were taken along enter a table of the tenant; one that is there stays as it is. How
-- many entered. Only columns that the table takes along can be given; `searchable` is their text.
create function bring_rows(kind text, tenant text, rows jsonb) returns bigint
language plpgsql set search_path = public, pg_temp as $$
    declare
      given text[] := array(
        select name from unnest(portable_columns(kind)) as name where rows -> 0 ? name
      );
      listed text := (select string_agg(quote_ident(name), ', ') from unnest(given) as name);
      told text := (select string_agg(format('r.%I', name), ', ') from unnest(given) as name);
      same text := (
        select string_agg(format('t.%1$I = r.%1$I', name), ' and ')
        from unnest(key_columns(kind)) as name
      );
      worded boolean := kind in ('episodes', 'facts', 'rules');
      number bigint;
    begin
      set constraints all deferred;
      execute format(
        'insert into %1$I (tenant_id, %2$s%4$s) select $2, %3$s%5$s '
        'from jsonb_array_elements($1) with ordinality as b (given, place) '
        'cross join lateral jsonb_populate_record(null::%1$I, b.given) r '
        'where not exists (select from %1$I t where t.tenant_id = $2 and %6$s) order by b.place',
        kind, listed, told,
        case when worded then ', search_vector' else '' end,
        case when worded then ', text_search_vector(b.given ->> ''searchable'')' else '' end,
        same
      ) using rows, tenant;
      get diagnostics number = row_count;
      return number;
    end
    $$;
revoke all on function bring_rows(text, text, jsonb) from public;
grant execute on function bring_rows(text, text, jsonb) to butlers_runtime;

-- bring_events --
-- Events come along as they were told, by whom and when: so only by this, for the tenant alone, and
-- to whoever proves to act as an import.
create function bring_events(rows jsonb) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
    begin
      if current_setting('butlers.actor', true) is distinct from 'import' then
        raise exception 'only an import brings events' using errcode = 'insufficient_privilege';
      end if;
      return bring_rows('memory_events', {tenant}, rows);
    end
    $$;
revoke all on function bring_events(jsonb) from public;
grant execute on function bring_events(jsonb) to butlers_runtime;

-- history --
-- Not even the owner rewrites history by accident; only erasing takes texts out of it.
create or replace function refuse_rewriting_history() returns trigger language plpgsql as $$
    begin
      if current_setting('butlers.erasing', true) = tg_table_name then
        return null;
      end if;
      raise exception '% is append-only: % refused', tg_table_name, tg_op
      using errcode = 'integrity_constraint_violation';
    end
    $$;

-- erase_rows --
-- The one way in which rows of a tenant are erased: they are deleted, with what only they are told
-- by; triggers take their words and vectors along. How many there were of each table.
create function erase_rows(kind text, which text[]) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
    declare
      tenant text := {tenant};
      ids uuid[] := case when kind <> 'projects' then which::uuid[] end;
      number bigint;
    begin
      if kind in ('episodes', 'facts', 'rules') then
        delete from memory_links
        where tenant_id = tenant and (
          (source_type = rtrim(kind, 's') and source_id = any(ids))
          or (target_type = rtrim(kind, 's') and target_id = any(ids))
        );
      end if;
      case kind
        when 'episodes' then
          delete from episodes where tenant_id = tenant and id = any(ids);
        when 'facts' then
          delete from facts where tenant_id = tenant and id = any(ids);
        when 'rules' then
          perform set_config('butlers.erasing', 'rule_applications', true);
          delete from rule_applications where tenant_id = tenant and rule_id = any(ids);
          perform set_config('butlers.erasing', '', true);
          delete from rules where tenant_id = tenant and id = any(ids);
        when 'rule_applications' then
          perform set_config('butlers.erasing', 'rule_applications', true);
          delete from rule_applications where tenant_id = tenant and id = any(ids);
        when 'binned_episodes' then
          delete from binned_episodes where tenant_id = tenant and episode_id = any(ids);
        when 'memory_proposals' then
          delete from memory_proposals where tenant_id = tenant and id = any(ids);
        when 'entities' then
          update facts set entity_id = null where tenant_id = tenant and entity_id = any(ids);
          delete from entities where tenant_id = tenant and id = any(ids);
        when 'projects' then
          update projects set moved_to = null where tenant_id = tenant and moved_to = any(which);
          delete from projects where tenant_id = tenant and id = any(which);
        else raise exception 'rows of % are not erased', kind;
      end case;
      get diagnostics number = row_count;
      perform set_config('butlers.erasing', '', true);
      return number;
    end
    $$;
revoke all on function erase_rows(text, text[]) from public;
grant execute on function erase_rows(text, text[]) to butlers_runtime;

-- erase_names --
-- The words of erased names leave the index, unless somebody who stays is named by them too.
create function erase_names(names text[]) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
    declare
      tenant text := {tenant};
      number bigint;
    begin
      delete from index_names n
      where n.tenant_id = tenant
        and n.name in (select word from unnest(names) as name cross join name_words(name) as word)
        and not exists (
          select from (
            select unnest(canonical_name::text || aliases) as name from entities
            where tenant_id = tenant and entity_type = 'person'
            union all select author from episodes where tenant_id = tenant and author is not null
            union all select author from facts where tenant_id = tenant and author is not null
          ) named
          where n.name in (select word from name_words(named.name) as word)
        );
      get diagnostics number = row_count;
      return number;
    end
    $$;
revoke all on function erase_names(text[]) from public;
grant execute on function erase_names(text[]) to butlers_runtime;
