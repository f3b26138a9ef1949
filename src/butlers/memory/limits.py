"""Fixed limits of the memory: good values that nobody needs to turn."""

MAX_LIMIT = 100
"""Most results a caller may ask for."""

MAX_EPISODE_CHARS = 1_000_000
MAX_FACT_CHARS = MAX_RULE_CHARS = 20_000
"""A longer text is refused."""

MAX_UNREAD_EPISODES = 100_000
MAX_UNREAD_MB = 1_000
"""Of each tenant: unconsolidated episodes that outlive their expiry; the oldest beyond expire."""

PIECE_DAYS = 365
"""How long a piece of a session is kept."""

MAX_CONTEXT_EPISODES = 5
"""Most recent episodes in a context."""

MAX_WRITES_PER_MINUTE = 1_200
"""What one token stores beyond this is quarantined."""

CONSOLIDATION_BATCH = 50
"""Most episodes read together; fewer if the model reads less."""
CONSOLIDATION_MINUTES = 60
"""How long a run goes on."""
CONSOLIDATION_LEASE_SECONDS = 300
"""How long a run claims its episodes."""
CONSOLIDATION_ATTEMPTS = 5
"""An episode that failed so often is a dead letter."""
MAX_KNOWN_FACTS = 100
MAX_KNOWN_RULES = 50
"""Current facts and rules shown to the model."""
