-- find --
-- Find a token's record by its digest.
select find_token(:digest) as record

-- note_use --
-- Note that a token is used.
select note_token(:digest, :now)

-- begin_sign_in --
-- Sign a browser in with a token.
select begin_sign_in(:digest, :token, :csrf, :expires_at, :now)

-- find_sign_in --
-- Find a browser's sign-in and the record of its token.
select csrf, expires_at, record from find_sign_in(:digest, :now)

-- end_sign_in --
-- Sign a browser out.
select end_sign_in(:digest)

-- is_there --
-- Tell whether the database has the table of tokens yet.
select to_regclass('public.tokens') is not null

-- all --
-- List every token, oldest first; for the database's owner.
select record, used_at from tokens order by record::jsonb ->> 'created_at', id

-- add --
-- Store a token; one that is there already stays as it is.
insert into tokens (digest, id, record, used_at)
values (:digest, :id, :record, :used_at)
on conflict do nothing

-- revoke --
-- Delete a token; the browsers signed in with it are signed out.
delete from tokens where id = :id returning record
