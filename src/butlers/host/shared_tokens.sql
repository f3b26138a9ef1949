-- find --
-- What is known of a token, by its digest.
select find_token(:digest) as record

-- note --
-- A token is used.
select note_token(:digest, :now)

-- begin_sign_in --
-- A browser signs in with a token.
select begin_sign_in(:digest, :token, :csrf, :expires_at, :now)

-- find_sign_in --
-- A browser that is signed in, and the token it did so with.
select csrf, expires_at, record from find_sign_in(:digest, :now)

-- end_sign_in --
-- A browser signs out.
select end_sign_in(:digest)

-- is_there --
-- Whether the database knows shared tokens already.
select to_regclass('public.tokens') is not null

-- all --
-- Every token, for the database's owner, the oldest first.
select record, used_at from tokens order by record::jsonb ->> 'created_at', id

-- add --
-- A token is kept; one that is there already stays.
insert into tokens (digest, id, record, used_at)
values (:digest, :id, :record, :used_at)
on conflict do nothing

-- revoke --
-- A token is forgotten, and whoever signed in with it is signed out.
delete from tokens where id = :id returning record
