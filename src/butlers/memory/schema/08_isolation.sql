-- own_tenant --
-- Row-level security: a tenant's rows exist only for a transaction that has proved the tenant.
-- Every row names a tenant.
do $$
declare
  name text;
begin
  foreach name in array array[
    'episodes', 'facts', 'rules', 'entities', 'memory_links', 'memory_events',
    'memory_event_chain', 'rule_applications', 'embedding_versions', 'episode_vectors',
    'fact_vectors', 'rule_vectors', 'index_memories', 'index_words', 'index_vectors',
    'index_names', 'binned_episodes', 'memory_proposals', 'memory_claims', 'memory_conflicts',
    'memory_predicates', 'projects'
  ] loop
    execute format('alter table %I enable row level security, force row level security', name);
    execute format(
      'create policy %1$s_own_tenant on %1$I using (tenant_id = (select proven_tenant())) '
      'with check (tenant_id = (select proven_tenant()))', name
    );
    execute format('grant select on %I to butlers_runtime', name);
    execute format(
      'alter table %1$I add constraint %1$s_tenant_named check (tenant_id <> '''')', name
    );
  end loop;
end
$$;

-- rights --
-- What requests may change. Functions write the audit log; erase_rows deletes facts and rules.
grant usage on schema public to butlers_runtime;
grant insert on episodes, facts, rules, entities, memory_links, rule_applications,
  embedding_versions, episode_vectors, fact_vectors, rule_vectors, index_memories, index_words,
  index_vectors, index_names, binned_episodes, memory_proposals, memory_claims, memory_conflicts,
  memory_predicates, projects
to butlers_runtime;
grant update on episodes, facts, rules, entities, memory_links, embedding_versions,
  index_memories, memory_proposals, memory_conflicts, memory_predicates, projects
to butlers_runtime;
grant delete on episodes, memory_links, episode_vectors, fact_vectors, rule_vectors,
  index_memories, index_words, index_vectors, binned_episodes, memory_claims, memory_predicates
to butlers_runtime;
