-- tokens --
-- Who may call, known to every process that serves the butler; read by the database's owner alone.
create table tokens (
  digest text primary key,
  id text not null unique,
  record text not null,
  used_at timestamptz
);
revoke all on tokens from public;

-- sign_ins --
-- Browsers that signed in with a token; with the token they go.
create table sign_ins (
  digest text primary key,
  token text not null references tokens on delete cascade,
  csrf text not null,
  expires_at timestamptz not null
);
create index sign_ins_newest on sign_ins (token, expires_at desc);
revoke all on sign_ins from public;

-- find_token --
-- What is known of a token, for whoever has it: requests may ask by its digest and no other way.
create function find_token(given text) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp
return (select record from public.tokens where digest = given);
revoke all on function find_token(text) from public;
grant execute on function find_token(text) to butlers_runtime;

-- note_token --
-- A token is used, to the minute; of several who say so at once nobody waits.
create function note_token(given text, at timestamptz) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp
begin atomic
  update public.tokens set used_at = at
  where digest in (
    select digest from public.tokens
    where digest = given and (used_at is null or used_at < at - interval '1 minute')
    for update skip locked
  );
end;
revoke all on function note_token(text, timestamptz) from public;
grant execute on function note_token(text, timestamptz) to butlers_runtime;

-- begin_sign_in --
-- A browser signs in with a token; of those of one token the newest hundred are kept.
create function begin_sign_in(given text, by_token text, secret text, ends_at timestamptz, at timestamptz)
returns void language sql volatile security definer set search_path = pg_catalog, pg_temp
begin atomic
  delete from public.sign_ins where expires_at <= at or digest in (
    select digest from public.sign_ins where token = by_token order by expires_at desc offset 99
  );
  insert into public.sign_ins (digest, token, csrf, expires_at)
  values (given, by_token, secret, ends_at);
end;
revoke all on function begin_sign_in(text, text, text, timestamptz, timestamptz) from public;
grant execute on function begin_sign_in(text, text, text, timestamptz, timestamptz)
to butlers_runtime;

-- find_sign_in --
-- A browser that is signed in, and the token it did so with.
create function find_sign_in(given text, at timestamptz)
returns table (csrf text, expires_at timestamptz, record text)
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
  select s.csrf, s.expires_at, t.record
  from public.sign_ins s join public.tokens t on t.digest = s.token
  where s.digest = given and s.expires_at > at;
end;
revoke all on function find_sign_in(text, timestamptz) from public;
grant execute on function find_sign_in(text, timestamptz) to butlers_runtime;

-- end_sign_in --
-- A browser signs out.
create function end_sign_in(given text) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp
begin atomic
  delete from public.sign_ins where digest = given;
end;
revoke all on function end_sign_in(text) from public;
grant execute on function end_sign_in(text) to butlers_runtime;

-- clock_boots --
-- What was believed of each machine's clock since it was started; the last of all begins it.
create table clock_boots (
  boot text primary key,
  at timestamptz not null,
  seconds double precision not null
);
insert into clock_boots (boot, at, seconds)
select boot, at, seconds from clock_believed where boot <> '';
grant select, insert, update on clock_boots to butlers_runtime;
