-- register_version --
-- Record a model for this tenant: the first is in use, any further one lies aside; a known one
-- keeps its id.
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
select id, model, version, dimensions, directory, state, created_at
from embedding_versions
where tenant_id = :tenant_id
order by created_at desc, id

-- hold --
-- Every model known to this tenant, held: nobody stores a vector until the transaction ends.
select id from embedding_versions
where tenant_id = :tenant_id
order by id
for update

-- join --
-- The state of a model, which stays so until the transaction ends.
select state from embedding_versions
where tenant_id = :tenant_id and id = :id
for key share

-- leave --
-- Models in one state go to another, to make room for the next in it.
update embedding_versions set state = :state
where tenant_id = :tenant_id and state = :was

-- enter --
-- One model is in a state from now on.
update embedding_versions set state = :state
where tenant_id = :tenant_id and id = :id

-- locate --
-- A model that was moved is found where it is now.
update embedding_versions set directory = :directory
where tenant_id = :tenant_id and id = :id and directory <> :directory

-- {fact_text} --
-- What the vector of a fact is made of; that of an episode or rule is made of its content.
facts.subject || ' ' || facts.predicate || ' ' || facts.content

-- {episodes_lacking} --
-- Episodes that have no vector of a version, neither in their row nor aside.
tenant_id = :tenant_id and embedding_version_id is distinct from :version_id
  and not exists (
    select from episode_vectors v
    where v.tenant_id = :tenant_id and v.embedding_version_id = :version_id
      and v.episode_id = episodes.id
  )

-- {facts_lacking} --
-- Facts likewise.
tenant_id = :tenant_id and embedding_version_id is distinct from :version_id
  and not exists (
    select from fact_vectors v
    where v.tenant_id = :tenant_id and v.embedding_version_id = :version_id
      and v.fact_id = facts.id
  )

-- {rules_lacking} --
-- Rules likewise.
tenant_id = :tenant_id and embedding_version_id is distinct from :version_id
  and not exists (
    select from rule_vectors v
    where v.tenant_id = :tenant_id and v.embedding_version_id = :version_id
      and v.rule_id = rules.id
  )

-- episodes_without --
-- Episodes that have no vector of a version, in id order.
select id, content as text
from episodes
where {episodes_lacking} and id > :after
order by id
limit :limit

-- facts_without --
-- Facts that have no vector of a version, in id order.
select id, {fact_text} as text
from facts
where {facts_lacking} and id > :after
order by id
limit :limit

-- rules_without --
-- Rules that have no vector of a version, in id order.
select id, content as text
from rules
where {rules_lacking} and id > :after
order by id
limit :limit

-- hold_episodes --
-- Episodes that still say what was embedded. Here as below, a row that somebody is changing right
-- now is left to the next round, so that none waits for the other.
select episodes.id from episodes
join unnest(:ids::uuid[], :texts::text[]) as made (id, text) on made.id = episodes.id
where episodes.tenant_id = :tenant_id and episodes.content = made.text
order by episodes.id
for share of episodes skip locked

-- hold_facts --
-- Facts that still say what was embedded.
select facts.id from facts
join unnest(:ids::uuid[], :texts::text[]) as made (id, text) on made.id = facts.id
where facts.tenant_id = :tenant_id and {fact_text} = made.text
order by facts.id
for share of facts skip locked

-- hold_rules --
-- Rules that still say what was embedded.
select rules.id from rules
join unnest(:ids::uuid[], :texts::text[]) as made (id, text) on made.id = rules.id
where rules.tenant_id = :tenant_id and rules.content = made.text
order by rules.id
for share of rules skip locked

-- keep_episodes --
-- Vectors aside for episodes that are held.
insert into episode_vectors (tenant_id, episode_id, embedding_version_id, embedding, created_at)
select m.tenant_id, m.id, :version_id, made.embedding, :now
from episodes m
join unnest(:ids::uuid[], :vectors::vector[]) as made (id, embedding) on made.id = m.id
where m.tenant_id = :tenant_id and m.id = any(:held)
on conflict do nothing

-- keep_facts --
-- Vectors aside for facts that are held.
insert into fact_vectors (tenant_id, fact_id, embedding_version_id, embedding, created_at)
select m.tenant_id, m.id, :version_id, made.embedding, :now
from facts m
join unnest(:ids::uuid[], :vectors::vector[]) as made (id, embedding) on made.id = m.id
where m.tenant_id = :tenant_id and m.id = any(:held)
on conflict do nothing

-- keep_rules --
-- Vectors aside for rules that are held.
insert into rule_vectors (tenant_id, rule_id, embedding_version_id, embedding, created_at)
select m.tenant_id, m.id, :version_id, made.embedding, :now
from rules m
join unnest(:ids::uuid[], :vectors::vector[]) as made (id, embedding) on made.id = m.id
where m.tenant_id = :tenant_id and m.id = any(:held)
on conflict do nothing

-- settle_episodes --
-- Vectors of a version come home into the rows of their episodes, instead of what is there.
with held as (
  select episodes.id, v.embedding
  from episode_vectors v
  join episodes on episodes.tenant_id = v.tenant_id and episodes.id = v.episode_id
  where v.tenant_id = :tenant_id and v.embedding_version_id = :version_id
  order by episodes.id
  limit :limit
  for no key update of episodes skip locked
),
moved as (
  delete from episode_vectors v using held
  where v.tenant_id = :tenant_id and v.embedding_version_id = :version_id
    and v.episode_id = held.id
)
update episodes set embedding = held.embedding, embedding_version_id = :version_id
from held
where episodes.tenant_id = :tenant_id and episodes.id = held.id

-- settle_facts --
-- Vectors of a version come home into the rows of their facts, instead of what is there.
with held as (
  select facts.id, v.embedding
  from fact_vectors v
  join facts on facts.tenant_id = v.tenant_id and facts.id = v.fact_id
  where v.tenant_id = :tenant_id and v.embedding_version_id = :version_id
  order by facts.id
  limit :limit
  for no key update of facts skip locked
),
moved as (
  delete from fact_vectors v using held
  where v.tenant_id = :tenant_id and v.embedding_version_id = :version_id and v.fact_id = held.id
)
update facts set embedding = held.embedding, embedding_version_id = :version_id
from held
where facts.tenant_id = :tenant_id and facts.id = held.id

-- settle_rules --
-- Vectors of a version come home into the rows of their rules, instead of what is there.
with held as (
  select rules.id, v.embedding
  from rule_vectors v
  join rules on rules.tenant_id = v.tenant_id and rules.id = v.rule_id
  where v.tenant_id = :tenant_id and v.embedding_version_id = :version_id
  order by rules.id
  limit :limit
  for no key update of rules skip locked
),
moved as (
  delete from rule_vectors v using held
  where v.tenant_id = :tenant_id and v.embedding_version_id = :version_id and v.rule_id = held.id
)
update rules set embedding = held.embedding, embedding_version_id = :version_id
from held
where rules.tenant_id = :tenant_id and rules.id = held.id

-- drop_vectors --
-- The vectors aside of one version are gone; how many there were.
with episodes_dropped as (
  delete from episode_vectors where tenant_id = :tenant_id and embedding_version_id = :version_id
  returning 1
),
facts_dropped as (
  delete from fact_vectors where tenant_id = :tenant_id and embedding_version_id = :version_id
  returning 1
),
rules_dropped as (
  delete from rule_vectors where tenant_id = :tenant_id and embedding_version_id = :version_id
  returning 1
)
select (select count(*) from episodes_dropped) + (select count(*) from facts_dropped)
  + (select count(*) from rules_dropped)

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
