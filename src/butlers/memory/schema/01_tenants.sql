-- extensions --
-- Vectors and exclusion constraints are required; similar names and `uuid-ossp` where available.
create extension if not exists vector with schema public;
create extension if not exists btree_gist with schema public;
do $$
declare
  wanted text;
begin
  foreach wanted in array array['pg_trgm', 'uuid-ossp'] loop
    if exists (select from pg_available_extensions where name = wanted) then
      execute format('create extension if not exists %I with schema public', wanted);
    end if;
  end loop;
end
$$;

-- memory_tenants --
-- Every tenant that ever stored something. Kept by triggers; the runtime role cannot read it.
create table memory_tenants (
  tenant text primary key,
  first_seen_at timestamptz not null default now()
);
revoke all on memory_tenants from public;

-- note_tenants --
-- Trigger: add the tenants of inserted rows to the list.
create or replace function note_tenants() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
    declare
      seen text;
    begin
      for seen in select distinct i.tenant_id from inserted i loop
        if not exists (select from memory_tenants m where m.tenant = seen) then
          insert into memory_tenants (tenant) values (seen) on conflict do nothing;
        end if;
      end loop;
      return null;
    end
    $$;

-- memory_tenant_names --
-- List all tenants. Only the butler itself may: it proves the empty tenant, which nobody has.
create or replace function memory_tenant_names() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
  select tenant from memory_tenants where (select proven_tenant()) = '' order by tenant;
end;

-- confidence --
-- Confidence after decay, never below a floor; the exponent is bounded, as underflow is an error.
create or replace function effective_confidence(
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
create or replace function effective_confidence(
  confidence float, decay_rate float, confirmed_at timestamptz, at timestamptz, floor float
) returns float
language sql immutable parallel safe
return greatest(floor, effective_confidence(confidence, decay_rate, confirmed_at, at));

-- text_search_vector --
-- Words of a text. A text with too many different words is indexed by its first half.
create or replace function text_search_vector(content text) returns tsvector
language plpgsql immutable parallel safe set search_path = public, pg_catalog as $$
    begin
      return to_tsvector('english', content);
    exception when program_limit_exceeded then
      return text_search_vector(left(content, length(content) / 2));
    end
    $$;

-- states --
-- The one word shown to readers for the state of a memory, whichever columns hold it.
create or replace function fact_state(validity text, metadata jsonb) returns text
language sql immutable parallel safe
return case
  when validity = 'active' and metadata ->> 'status' = 'fading' then 'fading' else validity
end;
create or replace function rule_state(metadata jsonb) returns text
language sql immutable parallel safe
return case
  when metadata -> 'forgotten' = 'true' then 'forgotten'
  when metadata ->> 'status' = 'fading' then 'fading'
  else 'active'
end;
create or replace function rule_state(metadata jsonb, quarantined text) returns text
language sql immutable parallel safe
return case
  when quarantined is not null and rule_state(metadata) <> 'forgotten' then 'quarantined'
  else rule_state(metadata)
end;
create or replace function episode_state(expires_at timestamptz, at timestamptz) returns text
language sql immutable parallel safe
return case when expires_at <= at then 'expired' else 'active' end;
create or replace function episode_state(expires_at timestamptz, at timestamptz, quarantined text)
returns text
language sql immutable parallel safe
return case
  when quarantined is not null and episode_state(expires_at, at) <> 'expired' then 'quarantined'
  else episode_state(expires_at, at)
end;
create or replace function entity_state(metadata jsonb) returns text
language sql immutable parallel safe
return case when metadata ->> 'merged_into' is null then 'active' else 'merged' end;

-- fact_key --
-- Key of a fact: scope and predicate of its entity, or of its subject where it has no entity.
create or replace function fact_key(scope text, entity_id uuid, subject text, predicate text) returns uuid
language sql immutable parallel safe
return md5(
  md5(scope) || coalesce(entity_id::text, md5(subject)) || md5(predicate)
)::uuid;

-- is_within --
-- Whether a validity window contains a moment; null is open.
create or replace function is_within(valid_from timestamptz, valid_to timestamptz, at timestamptz) returns boolean
language sql immutable parallel safe
return (valid_from is null or valid_from <= at) and (valid_to is null or at < valid_to);

-- scopes --
-- Whether a query sees a scope: it names scopes separated by chr(31); `*` is all but projects.
create or replace function is_named_scope(scope text, by_scope text) returns boolean
language sql immutable parallel safe
return scope = any(string_to_array(by_scope, chr(31)))
  or (starts_with(by_scope, '*' || chr(31)) and not starts_with(scope, 'project:'));
create or replace function is_visible_scope(scope text, by_scope text) returns boolean
language sql immutable parallel safe
return by_scope is null or scope = 'global' or is_named_scope(scope, by_scope);

-- is_same_content --
-- Whether two contents are equal but for case, spacing and surrounding punctuation.
create or replace function is_same_content(one text, other text) returns boolean
language sql immutable parallel safe
return btrim(lower(regexp_replace(one, '\s+', ' ', 'g')), ' .,;:!?"''')
  = btrim(lower(regexp_replace(other, '\s+', ' ', 'g')), ' .,;:!?"''');

-- base_table_name --
-- Name of a table without the shard number that a cluster appends.
create or replace function base_table_name(name text) returns text
language sql immutable parallel safe
return regexp_replace(name, '_[0-9]+$', '');
