-- register_version --
-- Record a model for this tenant: the first is in use, others lie aside; a known one keeps its id.
with added as (
  insert into embedding_versions
    (id, tenant_id, model, version, dimensions, directory, state, created_at)
  select :id, :tenant_id, :model, :version, :dimensions, :directory,
    case when count(*) > 0 then 'aside' else 'current' end, :now
  from embedding_versions
  where tenant_id = :tenant_id and state = 'current'
  on conflict do nothing
  returning id
)
select id from added
union all
select id from embedding_versions
where tenant_id = :tenant_id and model = :model and version = :version
order by id
limit 1

-- find_versions --
-- Every model known to this tenant, newest first.
select id, model, version, dimensions, directory, state, created_at,
  exists (select from episodes where tenant_id = :tenant_id and {is_less_trusted})
    or exists (select from facts where tenant_id = :tenant_id and {is_less_trusted})
    or exists (select from rules where tenant_id = :tenant_id and {is_less_trusted})
    as has_less_trusted
from embedding_versions
where tenant_id = :tenant_id
order by created_at desc, id

-- hold --
-- Lock every model of this tenant: nobody stores a vector until the transaction ends.
select id from embedding_versions
where tenant_id = :tenant_id
order by id
for update

-- join --
-- Load the state of a model and keep it until the transaction ends.
select state from embedding_versions
where tenant_id = :tenant_id and id = :id
for key share

-- leave --
-- Move models from one state to another.
update embedding_versions set state = :state
where tenant_id = :tenant_id and state = :was

-- enter --
-- Set the state of a model.
update embedding_versions set state = :state
where tenant_id = :tenant_id and id = :id

-- locate --
-- Set the directory of a model that was moved.
update embedding_versions set directory = :directory
where tenant_id = :tenant_id and id = :id and directory <> :directory

-- {kind}: episode, fact, rule --
-- {episode_text} --
-- The text that the vector of an episode is made of.
episodes.content

-- {fact_text} --
-- The text that the vector of a fact is made of.
facts.subject || ' ' || facts.predicate || ' ' || facts.content

-- {rule_text} --
-- The text that the vector of a rule is made of.
rules.content

-- {{kind}s_lacking} --
-- Memories that have no vector of a version, neither in their row nor aside.
tenant_id = :tenant_id and embedding_version_id is distinct from :version_id
  and not exists (
    select from {kind}_vectors v
    where v.tenant_id = :tenant_id and v.embedding_version_id = :version_id
      and v.{kind}_id = {kind}s.id
  )

-- {kind}s_without --
-- Memories that have no vector of a version, in id order.
select id, {{kind}_text} as text
from {kind}s
where {{kind}s_lacking} and id > :after
order by id
limit :limit

-- hold_{kind}s --
-- Lock memories that still say what was embedded; the next round takes those locked by others.
select {kind}s.id from {kind}s
join unnest(:ids::uuid[], :texts::text[]) as made (id, text) on made.id = {kind}s.id
where {kind}s.tenant_id = :tenant_id and {{kind}_text} = made.text
order by {kind}s.id
for share of {kind}s skip locked

-- keep_{kind}s --
-- Store vectors aside for memories that are locked.
insert into {kind}_vectors (tenant_id, {kind}_id, embedding_version_id, embedding, created_at)
select m.tenant_id, m.id, :version_id, made.embedding, :now
from {kind}s m
join unnest(:ids::uuid[], :vectors::vector[]) as made (id, embedding) on made.id = m.id
where m.tenant_id = :tenant_id and m.id = any(:held)
on conflict do nothing

-- settle_{kind}s --
-- Move vectors of a version into the rows of their memories, replacing what is there unless only
-- rows without a vector are meant.
with held as (
  select {kind}s.id, v.embedding
  from {kind}_vectors v
  join {kind}s on {kind}s.tenant_id = v.tenant_id and {kind}s.id = v.{kind}_id
  where v.tenant_id = :tenant_id and v.embedding_version_id = :version_id
    and ({kind}s.embedding_version_id is null or not :only_empty)
  order by {kind}s.id
  limit :limit
  for no key update of {kind}s skip locked
),
moved as (
  delete from {kind}_vectors v using held
  where v.tenant_id = :tenant_id and v.embedding_version_id = :version_id
    and v.{kind}_id = held.id
)
update {kind}s set embedding = held.embedding, embedding_version_id = :version_id
from held
where {kind}s.tenant_id = :tenant_id and {kind}s.id = held.id

-- drop_{kind}_vectors --
-- Drop the vectors aside of one version.
delete from {kind}_vectors where tenant_id = :tenant_id and embedding_version_id = :version_id

-- count_vectors --
-- How many memories the tenant has, and how many of them have a vector of a version.
select memories, memories - lacking as embedded
from (
  select
    (select count(*) from episodes where tenant_id = :tenant_id)
    + (select count(*) from facts where tenant_id = :tenant_id)
    + (select count(*) from rules where tenant_id = :tenant_id) as memories,
    (select count(*) from episodes where {episodes_lacking})
    + (select count(*) from facts where {facts_lacking})
    + (select count(*) from rules where {rules_lacking}) as lacking
) counted

-- sample_{kind}s --
-- Some memories with the text and the vector that they have, chosen by a word.
select {kind}s.id, {{kind}_text} as text, {kind}s.embedding::real[] as vector
from {kind}s
join embedding_versions v
  on v.tenant_id = :tenant_id and v.id = {kind}s.embedding_version_id and v.state = 'current'
where {kind}s.tenant_id = :tenant_id
order by hashtextextended({kind}s.id::text || :word::text, 0), {kind}s.id
limit :limit
