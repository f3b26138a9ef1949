-- The functions of "uuid-ossp" that need no knowledge of the machine: random, named and constant UUIDs.
-- v1 and v1mc, made from a network card's address, are left out on purpose.

create function uuid_generate_v4() returns uuid
language internal volatile strict parallel safe
as 'gen_random_uuid';

create function uuid_nil() returns uuid
language sql immutable strict parallel safe
return '00000000-0000-0000-0000-000000000000'::uuid;

create function uuid_ns_dns() returns uuid
language sql immutable strict parallel safe
return '6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid;

create function uuid_ns_url() returns uuid
language sql immutable strict parallel safe
return '6ba7b811-9dad-11d1-80b4-00c04fd430c8'::uuid;

create function uuid_ns_oid() returns uuid
language sql immutable strict parallel safe
return '6ba7b812-9dad-11d1-80b4-00c04fd430c8'::uuid;

create function uuid_ns_x500() returns uuid
language sql immutable strict parallel safe
return '6ba7b814-9dad-11d1-80b4-00c04fd430c8'::uuid;

-- A digest's first sixteen bytes, with version 3 and the RFC 9562 variant set.
create function uuid_generate_v3(namespace uuid, name text) returns uuid
language sql immutable strict parallel safe
return (
  select encode(
    set_byte(
      set_byte(digest, 6, (get_byte(digest, 6) & 15) | (3 << 4)),
      8, (get_byte(digest, 8) & 63) | 128
    ), 'hex')::uuid
  from (
    select decode(md5(uuid_send(namespace) || convert_to(name, 'UTF8')), 'hex') as digest
  ) as hashed
);
