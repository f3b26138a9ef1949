-- unbound --
-- Whether a proof serves every connection; databases made since have it from the start.
alter table tenant_key add column if not exists unbound boolean not null default false;

-- tenant_proof --
-- That this very connection (any, where the keys are unbound) may act for a tenant, on somebody's
-- behalf; for the owner, who reads the keys. The process, which knows them, makes the same.
create or replace function tenant_proof(tenant text, actor text) returns text
language sql stable parallel restricted set search_path = pg_catalog, pg_temp
return (
  select encode(sha256(k.outer_key || sha256(
    k.inner_key || sha256(convert_to(tenant, 'UTF8')) || sha256(convert_to(actor, 'UTF8'))
      || int4send(case when k.unbound then 0 else pg_backend_pid() end)
  )), 'hex')
  from public.tenant_key k
);

-- proven_tenant --
-- Whom the transaction acts for, if it was proven on this connection or, where the keys are unbound,
-- on any; policies ask once for each statement.
create or replace function proven_tenant() returns text
language plpgsql stable parallel restricted security definer
set search_path = pg_catalog, pg_temp as $$
    declare
      tenant text := current_setting('butlers.tenant', true);
      actor text := current_setting('butlers.actor', true);
      proof text := current_setting('butlers.proof', true);
    begin
      perform from public.tenant_key k, (values (pg_backend_pid()), (0)) as b (backend)
      where (k.unbound or b.backend <> 0)
        and proof = encode(sha256(k.outer_key || sha256(
          k.inner_key || sha256(convert_to(tenant, 'UTF8')) || sha256(convert_to(actor, 'UTF8'))
            || int4send(b.backend)
        )), 'hex');
      return case when found then tenant end;
    end
    $$;
