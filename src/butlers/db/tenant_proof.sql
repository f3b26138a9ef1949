-- keys --
-- The secrets that tenant proofs are made with; only the owner of the database reads them.
create table tenant_key (
  inner_key bytea not null,
  outer_key bytea not null,
  unbound boolean not null default false
);
create unique index tenant_key_only on tenant_key ((true));
revoke all on tenant_key from public;

-- new_keys --
-- A database that has none, a copy of the template for example, gets keys of its own.
insert into tenant_key (inner_key, outer_key)
select string_agg(uuid_send(gen_random_uuid()), '') filter (where number <= 4),
  string_agg(uuid_send(gen_random_uuid()), '') filter (where number > 4)
from generate_series(1, 8) as number
where not exists (select from tenant_key)
having count(*) = 8;

-- tenant_proof --
-- Make the proof that this connection (any, if unbound) may act for a tenant and an actor.
create function tenant_proof(tenant text, actor text) returns text
language sql stable parallel restricted set search_path = pg_catalog, pg_temp
return (
  select encode(sha256(k.outer_key || sha256(
    k.inner_key || sha256(convert_to(tenant, 'UTF8')) || sha256(convert_to(actor, 'UTF8'))
      || int4send(case when k.unbound then 0 else pg_backend_pid() end)
  )), 'hex')
  from public.tenant_key k
);
revoke all on function tenant_proof(text, text) from public;

-- proven_tenant --
-- Return the tenant that the transaction has proved; policies ask once for each statement.
create function proven_tenant() returns text
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
revoke all on function proven_tenant() from public;
grant execute on function proven_tenant() to butlers_runtime;

-- act_for --
-- Let the transaction act for a tenant and an actor; refuse without the proof of it.
create function act_for(tenant text, actor text, proof text) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
    begin
      perform set_config('butlers.tenant', tenant, true);
      perform set_config('butlers.actor', actor, true);
      perform set_config('butlers.proof', proof, true);
      if public.proven_tenant() is distinct from tenant then
        raise exception 'it is not proven who is acted for'
        using errcode = 'insufficient_privilege';
      end if;
      return tenant;
    end
    $$;
revoke all on function act_for(text, text, text) from public;
grant execute on function act_for(text, text, text) to butlers_runtime;

-- reads_replicas --
-- Whether replicas of this database may be read; a database can say that they may not.
select current_setting('butlers.read_replicas', true) is distinct from 'off'

-- is_there --
-- Whether the database has keys, and so was migrated.
select to_regclass('public.tenant_key') is not null

-- read_keys --
-- The keys that proofs are made with.
select inner_key, outer_key, unbound from public.tenant_key

-- unbind --
-- Let proofs hold on every connection.
update public.tenant_key set unbound = true where not unbound

-- is_unbound --
-- Whether a setting of the database asks for proofs that hold on every connection.
select coalesce(current_setting('butlers.unbound', true), '') = 'on'

-- act --
-- Let the transaction act for a tenant.
select act_for(:tenant_id, :actor, :proof)

-- tenants --
-- Every tenant that ever stored something here, for the butler itself.
select tenant from memory_tenant_names() as tenant order by tenant
