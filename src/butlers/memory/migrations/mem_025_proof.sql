-- subjects --
-- What waits for a yes, and who is told what a project remembers, is told of too.
alter table memory_events drop constraint memory_events_memory_type;
alter table memory_events add constraint memory_events_memory_type check (
  memory_type in ('episode', 'fact', 'rule', 'entity', 'link', 'proposal', 'project')
);

-- chain --
-- Beside every event its place in the tenant's chain: a hash of the one before it and of all that
-- the event says. `marked`: its payload had something like a mark from the first.
create table memory_event_chain (
  tenant_id text not null,
  number bigint not null,
  event_id uuid not null,
  marked boolean not null,
  hash bytea not null,
  primary key (tenant_id, number),
  constraint memory_event_chain_event unique (tenant_id, event_id),
  constraint memory_event_chain_tenant_named check (tenant_id <> '')
);

-- marks --
-- The mark of a value stands for it: put in its place, it leaves every mark around it as it was,
-- so that a text can be erased from an event and the event be proven all the same.
create function is_mark(said text) returns boolean
language sql immutable parallel safe
return length(said) = 71 and said ~ '^sha256:[0-9a-f]{64}$';
create function mark_of_text(said text) returns text
language sql immutable parallel safe
return case
  when length(said) = 71 and said ~ '^sha256:[0-9a-f]{64}$' then said
  else 'sha256:' || encode(sha256(convert_to(said, 'UTF8')), 'hex')
end;
create function mark_of(value jsonb, depth integer default 0) returns text
language plpgsql immutable parallel safe as $$
    declare
      spelt text := value::text;
    begin
      if jsonb_typeof(value) = 'string' then
        return mark_of_text(value #>> '{}');
      elsif jsonb_typeof(value) = 'object' and depth < 32 then
        select string_agg(to_json(key) || ':' || case jsonb_typeof(inside)
          when 'string' then mark_of_text(inside #>> '{}')
          when 'object' then mark_of(inside, depth + 1)
          when 'array' then mark_of(inside, depth + 1)
          else inside::text
        end, ',' order by key collate "C")
        into spelt from jsonb_each(value) as each (key, inside);
      elsif jsonb_typeof(value) = 'array' and depth < 32 then
        select string_agg(mark_of(inside, depth + 1), ',' order by place)
        into spelt from jsonb_array_elements(value) with ordinality as each (inside, place);
      end if;
      -- Twice, so that no text has the mark of what only spells like it.
      return 'sha256:' || encode(sha256(sha256(
        convert_to(left(value::text, 1) || coalesce(spelt, ''), 'UTF8')
      )), 'hex');
    end
    $$;
create function has_marks(value jsonb) returns boolean
language sql immutable parallel safe
return position('"sha256:' in value::text) > 0 and value::text ~ '"sha256:[0-9a-f]{64}"';

-- event_digest --
-- All that an event says, and whether something like a mark was in it when it was told.
create function event_digest(e memory_events, marked boolean) returns bytea
language sql stable parallel safe
return sha256(convert_to(jsonb_build_array(
  (e).id, (e).tenant_id, (e).event_type, (e).actor, (e).request_id, (e).memory_type,
  (e).memory_id, extract(epoch from (e).created_at), mark_of((e).payload), marked
)::text, 'UTF8'));

-- chain_events --
-- Events that are in no chain yet join the tenant's, in the order they were told in. Whoever does
-- so is alone until its transaction ends.
create function chain_events(tenant text, since bigint) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
    declare
      place bigint;
      before bytea;
      told memory_events;
    begin
      perform pg_advisory_xact_lock(hashtextextended('butlers.chain' || chr(31) || tenant, 0));
      select c.number, c.hash into place, before from memory_event_chain c
      where c.tenant_id = tenant order by c.number desc limit 1;
      place := coalesce(place, 0);
      before := coalesce(before, '');
      for told in
        select e.* from memory_events e
        where e.tenant_id = tenant and e.sequence >= since and not exists (
          select from memory_event_chain c where c.tenant_id = tenant and c.event_id = e.id
        )
        order by e.sequence
      loop
        place := place + 1;
        before := sha256(before || event_digest(told, has_marks(told.payload)));
        insert into memory_event_chain (tenant_id, number, event_id, marked, hash)
        values (tenant, place, told.id, has_marks(told.payload), before);
      end loop;
    end
    $$;
revoke all on function chain_events(text, bigint) from public;

-- chained_before --
-- What happened until now is chained as it stands.
alter table memory_events no force row level security;
do $$
begin
  perform chain_events(tenant_id, 0) from (select distinct tenant_id from memory_events) told;
end
$$;
alter table memory_events force row level security;

-- chained --
-- Events are chained when their transaction ends, after whatever else it waits for: so writers of
-- one tenant take turns for no longer than a commit, and never in a circle.
create function chain_event() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
    begin
      if not exists (
        select from memory_event_chain c
        where c.tenant_id = new.tenant_id and c.event_id = new.id
      ) then
        perform chain_events(new.tenant_id, new.sequence);
      end if;
      return null;
    end
    $$;
create constraint trigger memory_events_chained after insert on memory_events
deferrable initially deferred for each row execute function chain_event();

-- append_only --
-- History is neither deleted nor emptied. It is changed in one way alone: columns named give way
-- to their marks.
drop trigger memory_events_append_only on memory_events;
drop trigger rule_applications_append_only on rule_applications;
create function refuse_all_but_erasing() returns trigger
language plpgsql set search_path = public, pg_temp as $$
    declare
      was jsonb := to_jsonb(old);
      became jsonb := to_jsonb(new);
    begin
      if was = became or was - tg_argv <> became - tg_argv or exists (
        select from unnest(tg_argv) as erasable
        where mark_of(was -> erasable) is distinct from mark_of(became -> erasable)
      ) then
        raise exception '% is append-only: % refused', tg_table_name, tg_op
        using errcode = 'integrity_constraint_violation';
      end if;
      return new;
    end
    $$;
create trigger memory_events_erased before update on memory_events
for each row execute function refuse_all_but_erasing('payload');
create trigger rule_applications_erased before update on rule_applications
for each row execute function refuse_all_but_erasing('reason', 'context');
create trigger memory_event_chain_unchanged before update on memory_event_chain
for each statement execute function refuse_rewriting_history();

-- emptied --
-- Not even the owner does so by accident.
create trigger {table}_append_only before delete or truncate on {table}
for each statement execute function refuse_rewriting_history();

-- erased --
-- A payload without its texts. Ids, instants, numbers and the words of our own vocabularies go on
-- telling the story; whatever a person or a model may have said gives way to its mark.
create function erased_payload(payload jsonb) returns jsonb
language sql immutable parallel safe
return (
  select coalesce(jsonb_object_agg(key, case
    when key ~ '_at$' or key in ('through', 'created')
      or jsonb_typeof(value) in ('number', 'boolean', 'null') or value in ('{}', '[]')
    then value
    when key in ('from', 'to', 'relation', 'source_type', 'target_type', 'entity_type',
        'permanence', 'kind', 'status') and value::text ~ '^"[a-z_]{1,20}"$'
    then value
    when not jsonb_path_exists(value, '$.** ? (@.type() == "string" && !(@ like_regex
        "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"))')
      and not jsonb_path_exists(value, '$.** ? (@.type() == "object").keyvalue()
        ? (@.key != "from" && @.key != "to")')
    then value
    else to_jsonb(mark_of(value, 1))
  end), '{}')
  from jsonb_each(payload) as each (key, value)
);

-- erase_event_texts --
-- The events named say no more what anybody said; how many of them did. Whoever calls it tells so
-- in an event `memory_erased`, whose payload names them as `event_ids`.
create function erase_event_texts(event_ids uuid[]) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
    declare
      changed bigint;
    begin
      update memory_events e set payload = erased_payload(e.payload)
      where e.tenant_id = proven_tenant() and e.id = any(event_ids)
        and e.payload <> erased_payload(e.payload);
      get diagnostics changed = row_count;
      return changed;
    end
    $$;

-- erase_application_texts --
-- How these rules were tried says no more why; how many times it did.
create function erase_application_texts(rule_ids uuid[]) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
    declare
      changed bigint;
    begin
      update rule_applications a
      set reason = mark_of(to_jsonb(a.reason)),
        context = (
          select coalesce(jsonb_object_agg(key, mark_of(value, 1)), '{}')
          from jsonb_each(a.context) as each (key, value)
        )
      where a.tenant_id = proven_tenant() and a.rule_id = any(rule_ids)
        and (not is_mark(a.reason) or (a.context <> '{}' and not has_marks(a.context)));
      get diagnostics changed = row_count;
      return changed;
    end
    $$;

-- rights --
-- The chain is read by its tenant, and written by nobody.
alter table memory_event_chain enable row level security, force row level security;
create policy memory_event_chain_own_tenant on memory_event_chain
using (tenant_id = (select proven_tenant()))
with check (tenant_id = (select proven_tenant()));
grant select on memory_event_chain to butlers_runtime;
revoke all on function erase_event_texts(uuid[]), erase_application_texts(uuid[]) from public;
grant execute on function erase_event_texts(uuid[]), erase_application_texts(uuid[])
to butlers_runtime;

-- proven --
-- A tenant's rows are there for whoever proves to act for it, not for whoever says so.
alter policy {walled}_own_tenant on {walled}
using (tenant_id = (select proven_tenant())) with check (tenant_id = (select proven_tenant()));

-- tenant_names --
-- The butler itself alone is told who its tenants are: it proves to act for the name none has.
create or replace function memory_tenant_names() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
  select tenant from memory_tenants where (select proven_tenant()) = '' order by tenant;
end;

-- append_events --
-- Events are told by this alone. Whose they are and who did it was proven; neither can be said.
create function append_events(
  what text, request text, subject text, at timestamptz,
  ids uuid[], memories uuid[], payloads jsonb[]
) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
    declare
      told bigint;
    begin
      insert into memory_events
        (id, tenant_id, event_type, actor, request_id, memory_type, memory_id, payload, created_at)
      select h.id, proven_tenant(), what, current_setting('butlers.actor', true), request, subject,
        h.memory, h.payload, at
      from unnest(ids, memories, payloads) with ordinality as h (id, memory, payload, place)
      order by h.place;
      get diagnostics told = row_count;
      return told;
    end
    $$;
revoke insert on memory_events from butlers_runtime;
revoke all on function append_events(text, text, text, timestamptz, uuid[], uuid[], jsonb[])
from public;
grant execute on function append_events(text, text, text, timestamptz, uuid[], uuid[], jsonb[])
to butlers_runtime;

-- unvouched --
-- Searches read words from an index of their own, so that nobody has to vouch any more for what
-- matching a text might give away.
do $$
begin
  if (select rolsuper from pg_roles where rolname = current_user) then
    alter function pg_catalog.ts_match_vq(tsvector, tsquery) not leakproof;
  end if;
end
$$;
