"""What a caller may see, said once: how a memory stands, which scopes are seen, what is found.

Every function here is contained in the statement that calls it, so that indexes serve it as if it
were written there, and row-level security holds for the role that asks.
"""

from alembic import op

revision = "mem_013"
down_revision = "mem_012"
branch_labels = None
depends_on = None

# The one word a reader is shown for how a memory stands, whatever columns say it.
STATES = (
    """
    create function fact_state(validity text, metadata jsonb) returns text
    language sql immutable parallel safe
    return case
      when validity = 'active' and metadata ->> 'status' = 'fading' then 'fading' else validity
    end
    """,
    """
    create function rule_state(metadata jsonb) returns text
    language sql immutable parallel safe
    return case
      when metadata -> 'forgotten' = 'true' then 'forgotten'
      when metadata ->> 'status' = 'fading' then 'fading'
      else 'active'
    end
    """,
    """
    create function episode_state(expires_at timestamptz, at timestamptz) returns text
    language sql immutable parallel safe
    return case when expires_at <= at then 'expired' else 'active' end
    """,
    """
    create function entity_state(metadata jsonb) returns text
    language sql immutable parallel safe
    return case when metadata ->> 'merged_into' is null then 'active' else 'merged' end
    """,
)

# Whoever names a scope sees it and what is global; whoever names none sees every one.
SCOPES = """
    create function is_seen(scope text, by_scope text) returns boolean
    language sql immutable parallel safe
    return by_scope is null or scope in ('global', by_scope)
"""

FOUND = {
    "memory_type": "text",
    "id": "uuid",
    "created_at": "timestamptz",
    "importance": "float",
    "last_referenced_at": "timestamptz",
    "confidence": "float",
    "embedding": "vector",
    "embedding_version_id": "uuid",
    "search_vector": "tsvector",
}
NAMES = ", ".join(FOUND)
TABLE = ", ".join(f"{name} {kind}" for name, kind in FOUND.items())
ASKED = "tenant text, by_scope text, least_confidence float, at timestamptz"
GIVEN = "tenant, by_scope, least_confidence, at"


def _function(name: str, parameters: str, body: str) -> str:
    return f"""
        create function {name}({parameters}) returns table ({TABLE})
        language sql stable
        begin atomic
          {body};
        end
    """


# What a search may find of each kind. An episode belongs to one butler, whose name is its scope,
# and is as sure as it ever was; a rule is as important as anything is unless somebody says so.
EPISODES = _function(
    "visible_episodes",
    ASKED,
    """
          select 'episode', id, created_at, importance, last_referenced_at, 1.0::float, embedding,
            embedding_version_id, search_vector
          from episodes
          where tenant_id = tenant and (by_scope is null or butler = by_scope)
            and episode_state(expires_at, at) <> 'expired'
    """,
)
FACTS = _function(
    "visible_facts",
    ASKED,
    """
          select 'fact', id, created_at, importance, last_referenced_at,
            effective_confidence(confidence, decay_rate, last_confirmed_at, at), embedding,
            embedding_version_id, search_vector
          from facts
          where tenant_id = tenant and validity = 'active' and is_seen(scope, by_scope)
            and effective_confidence(confidence, decay_rate, last_confirmed_at, at)
              >= least_confidence
    """,
)
RULES = _function(
    "visible_rules",
    ASKED,
    """
          select 'rule', id, created_at, 5.0::float, last_referenced_at,
            effective_confidence(confidence, decay_rate, last_confirmed_at, at), embedding,
            embedding_version_id, search_vector
          from rules
          where tenant_id = tenant and rule_state(metadata) <> 'forgotten'
            and is_seen(scope, by_scope)
            and effective_confidence(confidence, decay_rate, last_confirmed_at, at)
              >= least_confidence
    """,
)
KINDS = {"episode": "episodes", "fact": "facts", "rule": "rules"}
MEMORIES = _function(
    "visible_memories",
    f"types text[], {ASKED}",
    " union all ".join(
        f"select {NAMES} from visible_{table}({GIVEN}) where '{noun}' = any(types)"  # noqa: S608
        for noun, table in KINDS.items()
    ),
)
# The same with their vector of one version, wherever it lies.
ASIDE = ", ".join(f"{'v' if name.startswith('embedding') else 'm'}.{name}" for name in FOUND)
EMBEDDED = _function(
    "visible_memories_embedded_by",
    f"version uuid, types text[], {ASKED}",
    f"select {NAMES} from visible_memories(types, {GIVEN}) where embedding_version_id = version"  # noqa: S608
    + "".join(
        f"""
          union all
          select {ASIDE}
          from {noun}_vectors v
          join visible_{table}({GIVEN}) m on m.id = v.{noun}_id
          where '{noun}' = any(types) and v.tenant_id = tenant
            and v.embedding_version_id = version
            and m.embedding_version_id is distinct from version
        """  # noqa: S608
        for noun, table in KINDS.items()
    ),
)

REPLACED = (
    *(f"drop function {table}_embedded_by(uuid)" for table in KINDS.values()),
    # An index serves a condition that is written as its own.
    "drop index facts_fading",
    """
    create index facts_fading on facts (tenant_id, scope)
    where fact_state(validity, metadata) = 'fading'
    """,
)


def upgrade() -> None:
    """What is visible has one definition, and every search, listing and count uses it."""
    for statement in (*STATES, SCOPES, EPISODES, FACTS, RULES, MEMORIES, EMBEDDED, *REPLACED):
        op.execute(statement)
