-- counts --
-- A fact's row is mostly its vector: counted from an index, ten thousand cost a few milliseconds.
create index facts_counted on facts (tenant_id, scope, validity);
create index facts_fading on facts (tenant_id, scope)
where validity = 'active' and metadata ->> 'status' = 'fading';
create index memory_events_kind on memory_events (tenant_id, event_type, sequence desc);

-- listings --
-- Every page has an index that leads to it; facts have theirs since mem_008.
create index episodes_tenant_created on episodes (tenant_id, created_at desc, id);
create index rules_tenant_created on rules (tenant_id, created_at desc, id);
create index entities_tenant_created on entities (tenant_id, created_at desc, id);
