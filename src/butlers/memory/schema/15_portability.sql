-- columns --
-- Columns that an export leaves out, those it takes along, and those that identify a row.
create or replace function local_columns(kind text) returns text[]
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
create or replace function portable_columns(kind text) returns text[]
language sql stable set search_path = public, pg_temp
begin atomic
  select array_agg(attname::text order by attnum)
  from pg_catalog.pg_attribute
  where attrelid = to_regclass(quote_ident(kind)) and attnum > 0 and not attisdropped
    and attname <> all(local_columns(kind));
end;
create or replace function key_columns(kind text) returns text[]
language sql stable set search_path = public, pg_temp
begin atomic
  select array_agg(a.attname::text order by a.attnum)
  from pg_catalog.pg_index i
  join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
  where i.indrelid = to_regclass(quote_ident(kind)) and i.indisprimary
    and a.attname <> 'tenant_id';
end;
grant execute on function local_columns(text), portable_columns(text), key_columns(text)
to butlers_runtime;

-- import_rows --
-- Import rows that a tenant lacks; returns how many. `searchable`: the text to find a memory by.
create or replace function import_rows(kind text, tenant text, rows jsonb) returns bigint
language plpgsql set search_path = public, pg_temp as $$
    declare
      given text[] := array(
        select name from unnest(portable_columns(kind)) as name where rows -> 0 ? name
      );
      listed text := (select string_agg(quote_ident(name), ', ') from unnest(given) as name);
      selected text := (select string_agg(format('r.%I', name), ', ') from unnest(given) as name);
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
        kind, listed, selected,
        case when worded then ', search_vector' else '' end,
        case when worded then ', text_search_vector(b.given ->> ''searchable'')' else '' end,
        same
      ) using rows, tenant;
      get diagnostics number = row_count;
      return number;
    end
    $$;

-- import_events --
-- Import events with their actor and time, for the proven tenant and the actor `import` alone.
create or replace function import_events(rows jsonb) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
    begin
      if current_setting('butlers.actor', true) is distinct from 'import' then
        raise exception 'only an import brings events' using errcode = 'insufficient_privilege';
      end if;
      return import_rows('memory_events', proven_tenant(), rows);
    end
    $$;
create or replace function import_events(tenant text, rows jsonb) returns bigint
language plpgsql set search_path = public, pg_temp as $$
    begin
      {same_tenant};
      return import_events(rows);
    end
    $$;

-- erased_payload --
-- A payload without texts: ids, times, numbers and own words stay, marks replace all else.
create or replace function erased_payload(payload jsonb) returns jsonb
language sql immutable parallel safe
return (
  select coalesce(jsonb_object_agg(key, case
    when key ~ '_at$' or key in ('through', 'created')
      or jsonb_typeof(value) in ('number', 'boolean', 'null') or value in ('{}', '[]')
    then value
    when key in ('from', 'to', 'relation', 'source_type', 'target_type', 'entity_type',
        'permanence', 'kind', 'status') and value::text ~ '^"[a-z_]{1,20}"$'
    then value
    when not jsonb_path_exists(value, '$.** ? (@.type() == "string" && !(@ like_regex
        "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"))')
      and not jsonb_path_exists(value, '$.** ? (@.type() == "object").keyvalue()
        ? (@.key != "from" && @.key != "to")')
    then value
    else to_jsonb(digest_of(value, 1))
  end), '{}')
  from jsonb_each(payload) as each (key, value)
);

-- erase_event_texts --
-- Erase texts of events; returns how many. The caller records them in `memory_erased`.
create or replace function erase_event_texts(event_ids uuid[]) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
    declare
      changed bigint;
    begin
      update memory_events e set payload = erased_payload(e.payload)
      where e.tenant_id = proven_tenant() and e.id = any(event_ids)
        and e.payload <> erased_payload(e.payload);
      get diagnostics changed = row_count;
      return changed;
    end
    $$;
create or replace function erase_event_texts(tenant text, event_ids uuid[]) returns bigint
language plpgsql set search_path = public, pg_temp as $$
    begin
      {same_tenant};
      return erase_event_texts(event_ids);
    end
    $$;

-- erase_application_texts --
-- Erase reason and context of the uses of rules; returns how many changed.
create or replace function erase_application_texts(rule_ids uuid[]) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
    declare
      changed bigint;
    begin
      update rule_applications a
      set reason = digest_of(to_jsonb(a.reason)),
        context = (
          select coalesce(jsonb_object_agg(key, digest_of(value, 1)), '{}')
          from jsonb_each(a.context) as each (key, value)
        )
      where a.tenant_id = proven_tenant() and a.rule_id = any(rule_ids)
        and (not is_digest(a.reason) or (a.context <> '{}' and not has_digests(a.context)));
      get diagnostics changed = row_count;
      return changed;
    end
    $$;

-- erase_rows --
-- Delete rows of a tenant and what refers to them; returns how many rows of the table.
create or replace function erase_rows(kind text, which text[]) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
    declare
      tenant text := proven_tenant();
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
      if kind = 'entities' then
        update facts set entity_id = null where tenant_id = tenant and entity_id = any(ids);
      elsif kind = 'projects' then
        update projects set moved_to = null where tenant_id = tenant and moved_to = any(which);
      elsif kind in ('rules', 'rule_applications') then
        perform set_config('butlers.erasing', 'rule_applications', true);
        delete from rule_applications
        where tenant_id = tenant and kind = 'rules' and rule_id = any(ids);
      elsif kind not in ('episodes', 'facts', 'binned_episodes', 'memory_proposals') then
        raise exception 'rows of % are not erased', kind;
      end if;
      execute format(
        'delete from %I where tenant_id = $1 and %I = any($2::%s[])', kind,
        (key_columns(kind))[1], case when kind = 'projects' then 'text' else 'uuid' end
      ) using tenant, which;
      get diagnostics number = row_count;
      perform set_config('butlers.erasing', '', true);
      return number;
    end
    $$;
create or replace function erase_rows(tenant text, kind text, which text[]) returns bigint
language plpgsql set search_path = public, pg_temp as $$
    begin
      {same_tenant};
      return erase_rows(kind, which);
    end
    $$;

-- erase_names --
-- Remove the words of erased names from the index, unless somebody who stays has them too.
create or replace function erase_names(names text[]) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
    declare
      tenant text := proven_tenant();
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
create or replace function erase_names(tenant text, names text[]) returns bigint
language plpgsql set search_path = public, pg_temp as $$
    begin
      {same_tenant};
      return erase_names(names);
    end
    $$;

-- {of_requests} --
-- Functions that requests call, and nobody else.
memory_tenant_names(), import_rows(text, text, jsonb), import_events(jsonb),
  append_events(text, text, text, timestamptz, uuid[], uuid[], jsonb[]),
  erase_event_texts(uuid[]), erase_application_texts(uuid[]), erase_rows(text, text[]),
  erase_names(text[])

-- function_rights --
-- Who may call these functions.
revoke all on function {of_requests} from public;
grant execute on function {of_requests} to butlers_runtime;
