-- {project} --
-- A project as its readers get it.
id, name, keys, places, shared, moved_to, created_at, last_seen_at

-- find_known --
-- The project that goes by one of these names, the surest first.
select {project}
from projects
where tenant_id = :tenant_id and keys && :keys::text[]
order by (select min(array_position(:keys::text[], key)) from unnest(keys) as key),
  last_seen_at desc, id
limit 1

-- insert --
-- A project nobody worked in before; one of the same id is left as it is.
insert into projects (tenant_id, id, name, keys, places, created_at, last_seen_at)
values (:tenant_id, :id, :name, :keys, :places, :now, :now)
on conflict (tenant_id, id) do nothing

-- touch --
-- What a project is known by and where it lies, as it was last seen.
update projects set keys = :keys, places = :places, last_seen_at = :now
where tenant_id = :tenant_id and id = :id

-- find_scopes --
-- The projects whose memories are told in one: it, what was moved into it, and what is shared.
select id from projects
where tenant_id = :tenant_id and (id = :id or moved_to = :id or shared)
order by id

-- find --
-- Every project, the one last worked in first, with how much each has.
select {project},
  (
    select count(*) from index_memories m
    where m.tenant_id = :tenant_id and m.scope = :prefix || projects.id and m.shown
  ) as memories
from projects
where tenant_id = :tenant_id and (:id::text is null or id = :id)
order by last_seen_at desc, id

-- resolve --
-- Which projects a person means by an id, its beginning, or a name.
select id from projects
where tenant_id = :tenant_id
  and (id = :given or name = :given or (length(:given) >= 4 and starts_with(id, :given)))
order by id = :given desc, id

-- share --
-- Whether what is in a project is seen from all.
update projects set shared = :shared
where tenant_id = :tenant_id and id = :id

-- move --
-- A project, with what was moved into it, is a part of another from here on.
update projects set moved_to = nullif(:to, id)
where tenant_id = :tenant_id and (id = :id or moved_to = :id or id = :to)
