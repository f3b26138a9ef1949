"""What happened, in words a person reads."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from butlers.memory.model import EventType

_EVENTS: Mapping[str, str] = {
    EventType.EPISODE_CREATED: "Episode stored",
    EventType.EPISODE_CONSOLIDATED: "Episode consolidated",
    EventType.EPISODE_CONSOLIDATION_FAILED: "Consolidation failed",
    EventType.EPISODE_DEAD_LETTERED: "Consolidation given up",
    EventType.EPISODE_REQUEUED: "Dead letter given another chance",
    EventType.EPISODE_FORGOTTEN: "Episode forgotten",
    EventType.EPISODE_EXPIRED: "Episode expired",
    EventType.EPISODE_EVICTED: "Episode made room",
    EventType.FACT_CREATED: "Fact stored",
    EventType.FACT_SUPERSEDED: "Fact replaced by a newer one",
    EventType.FACT_CONFIRMED: "Fact confirmed",
    EventType.FACT_RETRACTED: "Fact forgotten",
    EventType.FACT_RESTORED: "Fact restored",
    EventType.FACT_FADING: "Fact began to fade",
    EventType.FACT_RECOVERED: "Fact is sure again",
    EventType.FACT_EXPIRED: "Fact expired",
    EventType.FACT_ANCHORED: "Fact tied to an entity of its name, or let go",
    EventType.RULE_CREATED: "Rule stored",
    EventType.RULE_CONFIRMED: "Rule confirmed",
    EventType.RULE_FORGOTTEN: "Rule forgotten",
    EventType.RULE_RESTORED: "Rule restored",
    EventType.RULE_FADING: "Rule began to fade",
    EventType.RULE_RECOVERED: "Rule is sure again",
    EventType.RULE_MARKED_HELPFUL: "Rule helped",
    EventType.RULE_MARKED_HARMFUL: "Rule did harm",
    EventType.RULE_PROMOTED: "Rule rose a step",
    EventType.RULE_DEMOTED: "Rule fell a step",
    EventType.RULE_INVERTED: "Rule became a warning",
    EventType.LINK_CREATED: "Memories linked",
    EventType.ENTITY_CREATED: "Entity created",
    EventType.ENTITY_UPDATED: "Entity changed",
    EventType.ENTITY_REMOVED: "Entity removed",
    EventType.ENTITY_MERGE: "Entities merged",
    EventType.ENTITY_PARTED: "Entities parted",
    EventType.MEMORY_ERASED: "Memories erased",
    EventType.PROPOSAL_MADE: "Something waits for a yes",
    EventType.PROPOSAL_ACCEPTED: "Proposal accepted",
    EventType.PROPOSAL_DECLINED: "Proposal declined",
    EventType.PROJECT_SHARED: "Sharing of a project changed",
    EventType.PROJECT_MOVED: "Project moved",
}
_ABOUT = ("subject", "predicate", "canonical_name", "reason", "relation", "effective_confidence")
_ACTORS = {
    "local": "you, on this machine",
    "cli": "the command line",
    "python": "a Python program",
}
_PLURALS = {"fact": "facts", "rule": "rules", "episode": "episodes", "entity": "entities"}


def event_words(event_type: str) -> str:
    """An event in words; one this version does not know by its own name."""
    return _EVENTS.get(event_type) or event_type.replace("_", " ").capitalize()


def changes(payload: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is worth telling of an event: what it was about, and from what to what."""
    about = [name for name in _ABOUT if payload.get(name)]
    told = [(name.replace("_", " "), _phrase(payload[name])) for name in about]
    if isinstance(payload.get("from"), str) and isinstance(payload.get("to"), str):
        told.append(("state", f"{payload['from']} → {payload['to']}".replace("_", " ")))
    moved = payload.get("effectiveness_score")
    if isinstance(moved, Mapping) and moved.get("from") != moved.get("to"):
        told.append(("effectiveness", f"{_phrase(moved.get('from'))} → {_phrase(moved.get('to'))}"))
    return told


def actor_words(actor: str | None) -> str:
    """Who did it."""
    if not actor:
        return "somebody"
    kind, _, rest = actor.partition(":")
    if kind == "token" and rest:
        return f"an agent (token {rest})"
    if kind == "schedule" and rest:
        return f"the job {rest}"
    return _ACTORS.get(actor, actor)


def address(butler: str, kind: str | None, memory_id: Any) -> str:
    """Where a memory or an entity is shown; nowhere for a link."""
    if kind not in _PLURALS or not memory_id:
        return ""
    return f"/butlers/{butler}/memory/{_PLURALS[kind]}/{memory_id}"


def query(values: Mapping[str, Any]) -> str:
    """What was asked for as part of an address, what was left empty left out."""
    return urlencode([(key, value) for key, value in values.items() if value not in (None, "")])


def _phrase(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
