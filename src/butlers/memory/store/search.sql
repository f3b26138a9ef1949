-- find_candidates --
-- What is known of a question, and what may answer it.
select stale, words, bare_words, counts, weights, total, (shown).docs, (shown).kinds, (shown).ids,
  (shown).said_at, (shown).session_ids, (shown).places, (shown).authors, (shown).lengths,
  (shown).similarities, (shown).bare_similarities, (shown).near_places, (shown).word_places,
  hit_docs, hit_words, hit_impacts, has_low
from act_for(:tenant_id, :actor, :proof) as tenant
cross join lateral find_candidates(
  tenant, :version_id, :asked, :bare, :near, :near_bare, :types, :scope, :min_confidence, :now,
  :as_of, :known_at, :depth, :names_known, :total_known, :read_whole, :neighbours,
  :known, :matching, :docs, :distances, :bare_docs, :low
)
order by total

-- prefetch_matching --
-- The best by words, and what is known of the words.
select known, matching
from act_for(:tenant_id, :actor, :proof) as tenant
cross join lateral prefetch_matching(tenant, :asked, :total_known, :depth)
order by known

-- prefetch_nearest --
-- The best by meaning, with and without the names in the question.
select docs, distances, bare_docs
from act_for(:tenant_id, :actor, :proof) as tenant
cross join lateral prefetch_nearest(tenant, :version_id, :near, :near_bare, :depth, :neighbours)
order by docs

-- load_memories --
-- Memories as their readers get them.
select memory_type, id, memory
from act_for(:tenant_id, :actor, :proof) as tenant
cross join lateral load_memories(tenant, :types, :ids, :now, :as_of, :known_at)
order by id

-- load_tenant_profile --
-- The models a tenant knows, the names of its people, and how many memories it has.
select versions, names, memories, called
from act_for(:tenant_id, :actor, :proof) as tenant
cross join lateral tenant_profile(tenant)
order by versions

-- {kind}: episode, fact, rule --
-- {used_{kind}s} --
-- Lock the memories of one kind that were used in id order, so that two writers cannot deadlock.
select m.id, times, at
from unnest(:types::text[], :ids::uuid[], :times::integer[], :moments::timestamptz[])
  as used (type, id, times, at)
join {kind}s m on m.tenant_id = :tenant_id and m.id = used.id and used.type = '{kind}'
order by m.id
for no key update of m

-- {count_{kind}s} --
-- Count the uses of one kind.
update {kind}s m set reference_count = reference_count + times,
  last_referenced_at = greatest(last_referenced_at, at)
from used_{kind}s u where m.tenant_id = :tenant_id and m.id = u.id

-- count_uses --
-- Count memories as used, and when they were.
with used_episodes as materialized ({used_episodes}),
used_facts as materialized ({used_facts}),
used_rules as materialized ({used_rules}),
counted_episodes as ({count_episodes}),
counted_facts as ({count_facts})
{count_rules}
