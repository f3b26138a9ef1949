-- memory_events --
-- The audit log: every change, in order. Rows are appended by append_events alone.
create table memory_events (
  id uuid primary key default gen_random_uuid(),
  event_type text not null,
  actor text,
  tenant_id text not null,
  payload jsonb not null default '{}',
  created_at timestamptz not null default now(),
  memory_type text,
  memory_id uuid,
  request_id text,
  sequence bigint not null generated always as identity,
  constraint memory_events_memory_type check (
    memory_type in (
      'episode', 'fact', 'rule', 'entity', 'link', 'proposal', 'project', 'conflict'
    )
  ),
  constraint memory_events_names_a_memory check (memory_type is not null or memory_id is null)
);
create index memory_events_type on memory_events (event_type, created_at desc);
create index memory_events_tenant on memory_events (tenant_id, created_at desc);
create index memory_events_memory on memory_events (tenant_id, memory_id, sequence);
create index memory_events_request on memory_events (tenant_id, request_id)
where request_id is not null;
create index memory_events_order on memory_events (tenant_id, sequence desc);
create index memory_events_kind on memory_events (tenant_id, event_type, sequence desc);

-- memory_event_chain --
-- Hash chain over the events of a tenant. `marked`: the payload had marks when it was written.
create table memory_event_chain (
  tenant_id text not null,
  number bigint not null,
  event_id uuid not null,
  marked boolean not null,
  hash bytea not null,
  primary key (tenant_id, number),
  constraint memory_event_chain_event unique (tenant_id, event_id)
);

-- rule_applications --
-- Each use of a rule and its outcome. `counted` is false for a report less trusted than the rule.
create table rule_applications (
  id uuid primary key,
  tenant_id text not null,
  rule_id uuid not null,
  outcome text not null,
  reason text,
  context jsonb not null default '{}',
  request_id text,
  actor text,
  created_at timestamptz not null,
  origin text not null default 'agent',
  counted boolean not null default true,
  constraint rule_applications_outcome check (outcome in ('helpful', 'harmful')),
  constraint rule_applications_origin
    check (origin in ('operator', 'user', 'agent', 'inferred', 'document', 'tool')),
  constraint rule_applications_rule_same_tenant foreign key (tenant_id, rule_id)
    references rules (tenant_id, id) deferrable
);
create index rule_applications_rule on rule_applications (tenant_id, rule_id, created_at desc);

-- marks --
-- The mark of a value is its hash; it can replace the value without changing marks around it.
create or replace function is_digest(said text) returns boolean
language sql immutable parallel safe
return length(said) = 71 and said ~ '^sha256:[0-9a-f]{64}$';
create or replace function digest_of_text(said text) returns text
language sql immutable parallel safe
return case
  when length(said) = 71 and said ~ '^sha256:[0-9a-f]{64}$' then said
  else 'sha256:' || encode(sha256(convert_to(said, 'UTF8')), 'hex')
end;
create or replace function digest_of(value jsonb, depth integer default 0) returns text
language plpgsql immutable parallel safe as $$
    declare
      spelt text := value::text;
    begin
      if jsonb_typeof(value) = 'string' then
        return digest_of_text(value #>> '{}');
      elsif jsonb_typeof(value) = 'object' and depth < 32 then
        select string_agg(to_json(key) || ':' || case jsonb_typeof(inside)
          when 'string' then digest_of_text(inside #>> '{}')
          when 'object' then digest_of(inside, depth + 1)
          when 'array' then digest_of(inside, depth + 1)
          else inside::text
        end, ',' order by key collate "C")
        into spelt from jsonb_each(value) as each (key, inside);
      elsif jsonb_typeof(value) = 'array' and depth < 32 then
        select string_agg(digest_of(inside, depth + 1), ',' order by place)
        into spelt from jsonb_array_elements(value) with ordinality as each (inside, place);
      end if;
      -- Twice, so that no text has the mark of what only spells like it.
      return 'sha256:' || encode(sha256(sha256(
        convert_to(left(value::text, 1) || coalesce(spelt, ''), 'UTF8')
      )), 'hex');
    end
    $$;
create or replace function has_digests(value jsonb) returns boolean
language sql immutable parallel safe
return position('"sha256:' in value::text) > 0 and value::text ~ '"sha256:[0-9a-f]{64}"';

-- event_digest --
-- Hash of everything an event says, and of whether it contained a mark from the first.
create or replace function event_digest(e memory_events, marked boolean) returns bytea
language sql stable parallel safe
return sha256(convert_to(jsonb_build_array(
  (e).id, (e).tenant_id, (e).event_type, (e).actor, (e).request_id, (e).memory_type,
  (e).memory_id, extract(epoch from (e).created_at), digest_of((e).payload), marked
)::text, 'UTF8'));

-- chain_events --
-- Append events without a hash to the tenant's chain, under the tenant's advisory lock.
create or replace function chain_events(tenant text, since bigint) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
    declare
      place bigint;
      before bytea;
      event memory_events;
    begin
      perform pg_advisory_xact_lock(hashtextextended('butlers.chain' || chr(31) || tenant, 0));
      select c.number, c.hash into place, before from memory_event_chain c
      where c.tenant_id = tenant order by c.number desc limit 1;
      place := coalesce(place, 0);
      before := coalesce(before, '');
      for event in
        select e.* from memory_events e
        where e.tenant_id = tenant and e.sequence >= since and not exists (
          select from memory_event_chain c where c.tenant_id = tenant and c.event_id = e.id
        )
        order by e.sequence
      loop
        place := place + 1;
        before := sha256(before || event_digest(event, has_digests(event.payload)));
        insert into memory_event_chain (tenant_id, number, event_id, marked, hash)
        values (tenant, place, event.id, has_digests(event.payload), before);
      end loop;
    end
    $$;
revoke all on function chain_events(text, bigint) from public;

-- chain_event --
-- Trigger: chain an event at the commit, so that writers of one tenant wait only that long.
create or replace function chain_event() returns trigger
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

-- chained --
-- Every inserted event enters the chain.
create constraint trigger memory_events_chained after insert on memory_events
deferrable initially deferred for each row execute function chain_event();

-- refuse_rewriting_history --
-- Trigger: refuse to delete, truncate or update an append-only table, unless rows are being erased.
create or replace function refuse_rewriting_history() returns trigger language plpgsql as $$
    begin
      if current_setting('butlers.erasing', true) = base_table_name(tg_table_name) then
        return null;
      end if;
      raise exception '% is append-only: % refused', tg_table_name, tg_op
      using errcode = 'integrity_constraint_violation';
    end
    $$;

-- refuse_all_but_erasing --
-- Trigger: refuse an update of history except of the named columns, and there only to their marks.
create or replace function refuse_all_but_erasing() returns trigger
language plpgsql set search_path = public, pg_temp as $$
    declare
      was jsonb := to_jsonb(old);
      became jsonb := to_jsonb(new);
    begin
      if was = became or was - tg_argv <> became - tg_argv or exists (
        select from unnest(tg_argv) as erasable
        where digest_of(was -> erasable) is distinct from digest_of(became -> erasable)
      ) then
        raise exception '% is append-only: % refused', tg_table_name, tg_op
        using errcode = 'integrity_constraint_violation';
      end if;
      return new;
    end
    $$;

-- append_only --
-- History is append-only, also for the owner.
create trigger memory_events_erased before update on memory_events
for each row execute function refuse_all_but_erasing('payload');
create trigger rule_applications_erased before update on rule_applications
for each row execute function refuse_all_but_erasing('reason', 'context');
create trigger memory_event_chain_unchanged before update on memory_event_chain
for each statement execute function refuse_rewriting_history();

-- {table}: memory_events, rule_applications, memory_event_chain --
-- {table}_append_only --
-- No row of history is deleted.
create trigger {table}_append_only before delete or truncate on {table}
for each statement execute function refuse_rewriting_history();

-- append_events --
-- Append events. Tenant and actor come from the proof, never from the caller.
create or replace function append_events(
  what text, request text, subject text, at timestamptz,
  ids uuid[], memories uuid[], payloads jsonb[]
) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
    declare
      appended bigint;
    begin
      insert into memory_events
        (id, tenant_id, event_type, actor, request_id, memory_type, memory_id, payload, created_at)
      select h.id, proven_tenant(), what, current_setting('butlers.actor', true), request, subject,
        h.memory, h.payload, at
      from unnest(ids, memories, payloads) with ordinality as h (id, memory, payload, place)
      order by h.place;
      get diagnostics appended = row_count;
      return appended;
    end
    $$;
create or replace function append_events(
  tenant text, what text, request text, subject text, at timestamptz,
  ids uuid[], memories uuid[], payloads jsonb[]
) returns bigint
language plpgsql set search_path = public, pg_temp as $$
    begin
      {same_tenant};
      return append_events(what, request, subject, at, ids, memories, payloads);
    end
    $$;

-- counted_reports --
-- Reports on a rule that count and were not taken back.
create or replace function counted_reports(tenant text, rule uuid)
returns table (
  id uuid, outcome text, reason text, actor text, origin text, created_at timestamptz
)
language sql stable
begin atomic
  select a.id, a.outcome, a.reason, a.actor, a.origin, a.created_at
  from rule_applications a
  where a.tenant_id = tenant and a.rule_id = rule and a.counted and not exists (
    select from memory_events e
    where e.tenant_id = tenant and e.memory_id = rule and e.event_type = 'rule_unmarked'
      and jsonb_exists(e.payload -> 'applications', a.id::text)
  );
end;

-- has_only_own_reports --
-- Whether every counted report on a rule comes from its author; false where there is none.
create or replace function has_only_own_reports(tenant text, rule uuid, author text) returns boolean
language sql stable
return (select coalesce(bool_and(m.actor = author), false) from counted_reports(tenant, rule) m);
