"""The index beside what it is derived from: whatever one has and the other lacks."""

from itertools import product

_TENANTS = " union ".join(
    f"select tenant_id from {table}"
    for table in ("episodes", "facts", "rules", "index_memories", "index_words", "index_vectors")
)
_COLUMNS = (
    "tenant_id, memory_type, memory_id, shown, scope, confidence, decay_rate, confirmed_at, "
    "expires_at, created_at, said_at, session_id, author, entity_id, confidence_floor, "
    "valid_from, valid_to, past"
)
_PAIRS = {
    "memories": (
        f"select {_COLUMNS}, length from index_memories",
        f"select {_COLUMNS}, word_count(search_vector) from indexed_memories",
    ),
    "places": (
        "select i.tenant_id, i.memory_id, i.place from index_memories i "
        "join indexed_memories m using (tenant_id, memory_type, memory_id) "
        "where m.place is not null or m.session_id is null",
        "select tenant_id, memory_id, place from indexed_memories "
        "where place is not null or session_id is null",
    ),
    "words": (
        "select i.tenant_id, i.memory_id, w.word, w.impact, w.place from index_words w "
        "left join index_memories i using (tenant_id, doc)",
        "select m.tenant_id, m.memory_id, w.lexeme, bm25_impact("
        "coalesce(array_length(w.positions, 1), 1), word_count(m.search_vector)), "
        "coalesce(w.positions[1], 0) from indexed_memories m, unnest(m.search_vector) w",
    ),
    "vectors": (
        "select i.tenant_id, i.memory_type, i.memory_id, v.version_id, v.embedding::text "
        "from index_vectors v left join index_memories i using (tenant_id, doc)",
        "select tenant_id, memory_type, memory_id, version_id, embedding::halfvec(384)::text "
        "from indexed_vectors",
    ),
}


async def differences(owner):
    """Rows that the index has and should not, or lacks and should have."""
    found, tenants = [], await owner.fetch(_TENANTS)
    for tenant, (part, pair) in product((row["tenant_id"] for row in tenants), _PAIRS.items()):
        # Tenant by tenant: on a cluster each is on one node.
        there, wanted = (f"select * from ({query}) q where tenant_id = $1" for query in pair)
        for fault, query in (
            ("too many", f"{there} except all {wanted}"),
            ("missing", f"{wanted} except all {there}"),
        ):
            found += [(part, fault, *row.values()) for row in await owner.fetch(query, tenant)]
    return found
