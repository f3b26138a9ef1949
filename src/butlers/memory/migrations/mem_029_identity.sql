-- claims --
-- An agent that reads episodes is shown whom and what they name, and may say which it means.
alter table memory_claims add column entity_ids uuid[] not null default '{}';

-- tenant_standing --
-- What a process may remember of a tenant: the models it knows, the names of its people, how
-- those are called who have other names, and how many memories it has.
drop function tenant_standing(text);
create function tenant_standing(tenant text)
returns table (versions jsonb, names text[], memories bigint, called jsonb)
language plpgsql as $$
    begin
      perform set_config('butlers.tenant', tenant, true);
      versions := (
        select coalesce(jsonb_agg(to_jsonb(v) order by v.created_at desc, v.id), '[]')
        from (
          select e.id, e.model, e.version, e.dimensions, e.directory, e.state, e.created_at
          from embedding_versions e where e.tenant_id = tenant
        ) v
      );
      names := (
        select coalesce(array_agg(n.name order by n.name), '{}')
        from index_names n where n.tenant_id = tenant
      );
      memories := (select count(*) from index_memories m where m.tenant_id = tenant);
      called := (
        select coalesce(jsonb_object_agg(known.name, known.called), '{}')
        from (
          select lower(alias) as name, min(e.canonical_name) as called
          from entities e cross join unnest(e.aliases) as alias
          where e.tenant_id = tenant and entity_state(e.metadata) <> 'merged'
          group by lower(alias)
          having count(distinct e.id) = 1
          order by lower(alias)
          limit 10000
        ) known
      );
      return next;
    end
    $$;
