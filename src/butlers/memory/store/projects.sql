-- {project} --
-- The columns of a project that readers get.
id, name, keys, places, shared, moved_to, created_at, last_seen_at

-- find_known --
-- Find the project with one of these keys, in the order of the keys.
select {project}
from projects
where tenant_id = :tenant_id and keys && :keys::text[]
order by (select min(array_position(:keys::text[], key)) from unnest(keys) as key),
  last_seen_at desc, id
limit 1

-- insert --
-- Insert a project; one with the same id is left as it is.
insert into projects (tenant_id, id, name, keys, places, created_at, last_seen_at)
values (:tenant_id, :id, :name, :keys, :places, :now, :now)
on conflict (tenant_id, id) do nothing

-- touch --
-- Set the keys and places of a project, and when it was last seen.
update projects set keys = :keys, places = :places, last_seen_at = :now
where tenant_id = :tenant_id and id = :id

-- find_scopes --
-- Find the projects visible in one: itself, those moved into it, and shared ones.
select id from projects
where tenant_id = :tenant_id and (id = :id or moved_to = :id or shared)
order by id

-- find --
-- Find projects with the number of their memories, pieces not counted, last seen first.
select {project},
  (
    select count(*) from index_memories m
    where m.tenant_id = :tenant_id and m.scope = :prefix || projects.id and m.shown
      and not exists (
        select from episodes e
        where e.tenant_id = :tenant_id and e.id = m.memory_id and e.piece is not null
      )
  ) as memories
from projects
where tenant_id = :tenant_id and (:id::text is null or id = :id)
order by last_seen_at desc, id

-- resolve --
-- Find the projects with an id, the beginning of an id, or a name.
select id from projects
where tenant_id = :tenant_id
  and (id = :given or name = :given or (length(:given) >= 4 and starts_with(id, :given)))
order by id = :given desc, id

-- share --
-- Set whether a project is visible from all others.
update projects set shared = :shared
where tenant_id = :tenant_id and id = :id

-- move --
-- Move a project, and those moved into it, into another.
update projects set moved_to = nullif(:to, id)
where tenant_id = :tenant_id and (id = :id or moved_to = :id or id = :to)
