-- alone --
-- Whether nobody else moves this database.
select pg_try_advisory_lock(hashtextextended('butlers.move.' || :database::text, 0))

-- may --
-- Whether whoever asks may do everything.
select rolsuper from pg_roles where rolname = current_user

-- gate --
-- Whoever acts for a tenant looks here first: those who do finish, those who want to wait.
lock table public.tenant_key in access exclusive mode

-- keys --
-- What proofs are checked with.
select inner_key, outer_key, unbound from public.tenant_key

-- take_keys --
-- A database that takes the place of another takes its keys: whoever signed in there signs in here.
insert into public.tenant_key (inner_key, outer_key, unbound)
values (:inner_key, :outer_key, :unbound)

-- heads --
-- Where the chain of each tenant's events ends.
select distinct on (tenant_id) tenant_id, number, hash from memory_event_chain
order by tenant_id, number desc

-- is_begun --
-- Whether the database is made, and rows are being copied to it.
select to_regclass('moving.copied') is not null
