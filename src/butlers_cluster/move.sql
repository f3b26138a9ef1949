-- lock_move --
-- Take the lock on moving this database; false where another process has it.
select pg_try_advisory_lock(hashtextextended('butlers.move.' || :database::text, 0))

-- is_superuser --
-- Whether the login is a superuser.
select rolsuper from pg_roles where rolname = current_user

-- lock_keys --
-- Every transaction of a tenant reads this table first: open ones end, new ones wait.
lock table public.tenant_key in access exclusive mode

-- insert_keys --
-- Give a database the keys of another.
insert into public.tenant_key (inner_key, outer_key, unbound)
values (:inner_key, :outer_key, :unbound)

-- last_events --
-- The last event of each tenant's chain.
select distinct on (tenant_id) tenant_id, number, hash from memory_event_chain
order by tenant_id, number desc

-- is_begun --
-- Whether rows are being copied to the database.
select to_regclass('moving.copied') is not null
