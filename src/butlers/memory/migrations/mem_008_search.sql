-- vectors --
-- A denser graph than the default, which found 97 of 100 true neighbours among 100,000 rows; this
-- one found all of them.
drop index {table}_embedding;
-- Out of line, a vector costs an exact scan almost six times as much.
alter table {table} alter column embedding set storage main;
-- Every recall counts the rows it returns; room on the page spares each count an entry in every
-- index, the vector index above all.
alter table {table} set (fillfactor = 70);
create index {table}_embedding on {table} using hnsw (embedding vector_cosine_ops)
with (m = 24, ef_construction = 128);

-- tenants --
-- A tenant's small set is scanned exactly: these indexes lead to it.
create index episodes_tenant on episodes (tenant_id, butler, created_at desc);
create index facts_tenant_active on facts (tenant_id, scope) where validity = 'active';
create index facts_tenant_created on facts (tenant_id, created_at desc, id);
create index rules_tenant on rules (tenant_id, scope);
create index memory_links_tenant on memory_links (tenant_id);
create index episodes_claimable on episodes (tenant_id, butler, created_at, id)
where consolidation_status in ('pending', 'failed');
create index episodes_capacity on episodes (tenant_id, created_at, id)
where consolidation_status = 'consolidated';

-- decaying --
-- The sweep walks what can fade, in id order.
create index facts_decaying on facts (tenant_id, id)
where validity = 'active' and decay_rate > 0;
create index rules_decaying on rules (tenant_id, id) where decay_rate > 0;

-- effective_confidence --
-- PostgreSQL calls a result too small to write an error: the exponent has a floor, and a confidence
-- that is nothing to speak of counts as nothing.
create function effective_confidence(
  confidence float, decay_rate float, confirmed_at timestamptz, at timestamptz
) returns float
language sql immutable parallel safe
return case
  when decay_rate = 0 then confidence
  when confirmed_at is null or confidence < 1e-40 then 0.0
  else confidence * exp(
    -least(
      decay_rate * greatest(extract(epoch from at - confirmed_at)::float / 86400.0, 0.0), 600.0
    )
  )
end;

-- text_search_vector --
-- A text of very many different words makes a vector too large to store; its beginning is indexed
-- then, rather than the episode refused.
create function text_search_vector(content text) returns tsvector
language plpgsql immutable parallel safe set search_path = public, pg_catalog as $$
    begin
      return to_tsvector('english', content);
    exception when program_limit_exceeded then
      return text_search_vector(left(content, length(content) / 2));
    end
    $$;

-- trigrams --
-- Names that are nearly alike are found where the server can tell.
do $$
begin
  if exists (select from pg_available_extensions where name = 'pg_trgm') then
    create extension if not exists pg_trgm with schema public;
  end if;
end
$$;
