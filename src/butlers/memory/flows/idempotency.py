"""What was stored before under an idempotency key."""

from butlers.db.postgres import Transaction
from butlers.errors import IntegrityViolation
from butlers.memory.flows.results import StoredEpisode, StoredFact, StoredRule
from butlers.memory.model import NewEpisode, NewFact, NewRule
from butlers.memory.store import episodes, facts, rules


async def known_episode(tx: Transaction, new: NewEpisode) -> StoredEpisode:
    """The episode that was stored under this idempotency key before."""
    found = await episodes.get_by_idempotency_key(tx, idempotency_key=new.idempotency_key)
    if found is None:
        raise IntegrityViolation("the episode with this idempotency key vanished; try again")
    return StoredEpisode(found["id"], found["expires_at"])


async def known_fact(tx: Transaction, new: NewFact) -> StoredFact | None:
    """What was stored under this idempotency key before, once nobody else is storing it."""
    if new.idempotency_key is None:
        return None
    # Only the first of several writers at once supersedes anything.
    await facts.hold_idempotency_keys(tx, new.idempotency_key)
    found = await facts.get_by_idempotency_key(tx, idempotency_key=new.idempotency_key)
    return StoredFact(found["id"], found["supersedes_id"]) if found else None


async def known_rule(tx: Transaction, new: NewRule) -> StoredRule:
    """The rule that was stored under this idempotency key before."""
    found = await rules.get_by_idempotency_key(tx, idempotency_key=new.idempotency_key)
    if found is None:
        raise IntegrityViolation("the rule with this idempotency key vanished; try again")
    return StoredRule(found["id"])
