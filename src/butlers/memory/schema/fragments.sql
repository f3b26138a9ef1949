-- {table}: episodes, facts, rules --
-- {{table}_constraints} --
-- Constraints of every kind of memory.
constraint {table}_tenant_id unique (tenant_id, id),
  constraint {table}_origin
    check (origin in ('operator', 'user', 'agent', 'inferred', 'document', 'tool')),
  constraint {table}_trust check (trust between 0 and 4),
  constraint {table}_embedding_is_versioned
    check ((embedding is null) = (embedding_version_id is null)),
  constraint {table}_embedding_version foreign key (tenant_id, embedding_version_id)
    references embedding_versions (tenant_id, id)

-- {moment} --
-- Moment of a question, as parameters: now, when it has to hold, when it had to be believed.
at timestamptz, as_of timestamptz, known_at timestamptz

-- {asked} --
-- Filter of a search, as parameters.
types text[], by_scope text, least_confidence float, {moment}

-- {given} --
-- Filter of a search, as arguments.
types, by_scope, least_confidence, at, as_of, known_at

-- {planned} --
-- One plan for all calls, by index.
set enable_seqscan = off set plan_cache_mode = force_generic_plan

-- {by_index} --
-- A plan made while there are few rows must serve when there are many.
set enable_seqscan = off

-- {kind} --
-- Which kind of memory the trigger's table holds.
declare kind text := rtrim(base_table_name(tg_table_name), 's')

-- {same_tenant} --
-- Refuse unless the caller has proved the tenant it names.
if tenant is distinct from proven_tenant() then
        raise exception 'it is not proven who is acted for'
        using errcode = 'insufficient_privilege';
      end if
