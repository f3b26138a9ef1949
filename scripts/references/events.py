"""Describe every event and its payload, and write docs/events.md from that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from butlers.memory.model import EventSubject, EventType


@dataclass(frozen=True, slots=True)
class Meaning:
    """Meaning of an event: the keys its payload always has, and those it may have."""

    text: str
    payload: Mapping[str, str]
    sometimes: Mapping[str, str] = field(default_factory=dict)


def _moved(before: str, after: str, **more: str) -> dict[str, str]:
    return {"from": before, "to": after, **more}


_SOURCE = {
    "source_butler": "the butler it was stored through",
    "source_episode_id": "the episode it was drawn from, or null",
}
_REMOVED = {
    "from": "the consolidation status it had",
    "to": "`removed`",
    "butler": "the butler of the episode",
    "created_at": "when it was stored",
    "expires_at": "when it expired or would have expired",
}
_PIECE = {
    "piece": "what a piece of a session is: `said`, `answer`, `decision`, `failure` or `files`"
}
_ATTEMPT = {
    "from": "the consolidation status before",
    "attempts": "number of attempts so far",
    "reason": "the error",
    "retry_at": "when it is tried again, or null",
}
_COUNTS = {
    "applied_count": "`{from, to}`",
    "success_count": "`{from, to}`",
    "harmful_count": "`{from, to}`",
    "effectiveness_score": "`{from, to}`",
}
_SWEPT = {"effective_confidence": "its remaining confidence, if the decay sweep did it"}
_FADED = "its remaining confidence"
_CITED = {
    "episodes": "the episodes that say so, if consolidation confirmed it",
    "accepted_by": "the person who confirmed it",
}
_RELEASED = {"accepted_by": "the person"}
_CONFIRMED = {"last_confirmed_at": "`{from, to}`, instants"}
_STATE = "`active` or `fading`"
_DOUBTED = {
    "origin": "who said it, unless it was stated",
    "trust": "its trust, unless it was stated",
    "agent": "the agent that stored it, if known",
    "quarantined": "why it is in quarantine",
}
_LINK = {
    "source_type": "`episode`, `fact` or `rule`",
    "source_id": "the memory the link starts at",
    "target_type": "`episode`, `fact` or `rule`",
    "target_id": "the memory it points to",
    "relation": "the kind of link",
}
_UNCOUNTED = {"counted": "false if the caller is less trusted than the rule"}
_SETTLED = {"conflict": "the conflict whose settlement caused it"}
_SIDES = {"newer_id": "the newer fact", "older_id": "the older one"}
_UNDO = {"undo": "true if it is part of undoing a source"}
_WINDOW = {"window": "`{from, to}`: the validity window before and after"}
_UNCONFIRMED = {
    "last_confirmed_at": "the last remaining confirmation, or null",
    "confirmations": "the undone confirmation events",
    **_UNDO,
}

EVENTS: Mapping[EventType, Meaning] = {
    EventType.EPISODE_CREATED: Meaning(
        "An episode was stored.",
        {
            "to": "`pending`, or `consolidated` for a piece",
            "butler": "the butler of the episode",
            "importance": "0 to 10",
        },
        {
            **_PIECE,
            "place": "its position among the parts of a session: 0, 1, 2 …",
            "through": "the end of the part of the session that it covers",
            "after": "the episode of the previous part, or null",
            **_DOUBTED,
        },
    ),
    EventType.EPISODE_ACCEPTED: Meaning(
        "A person released an episode from quarantine.",
        {**_moved("`quarantined`", "`pending`"), **_RELEASED},
    ),
    EventType.EPISODE_OUTDATED: Meaning(
        "A later decision, or a person, made a decision past.",
        {
            "past_by": "`{from, to}`: the later decision, or its own id if a person said so",
            "reason": "why",
        },
    ),
    EventType.EPISODE_REINSTATED: Meaning(
        "A person let a past decision hold again.",
        {"past_by": "`{from, to}`: what had made it past, and null"},
    ),
    EventType.EPISODE_CONSOLIDATED: Meaning(
        "Consolidation finished with an episode.",
        _moved(
            "the consolidation status before",
            "`consolidated`",
            created="the facts and rules drawn from its batch, each `{type, id}`",
        ),
    ),
    EventType.EPISODE_CONSOLIDATION_FAILED: Meaning(
        "An attempt to consolidate an episode failed; another follows.",
        {**_ATTEMPT, "to": "`failed`"},
    ),
    EventType.EPISODE_DEAD_LETTERED: Meaning(
        "The last attempt to consolidate an episode failed; it waits for a person.",
        {**_ATTEMPT, "to": "`dead_letter`"},
    ),
    EventType.EPISODE_REQUEUED: Meaning(
        "A dead letter was requeued.",
        _moved(
            "`dead_letter`",
            "`pending`",
            reason="the last error",
            attempts="number of attempts so far",
        ),
    ),
    EventType.EPISODE_KEPT: Meaning(
        "The expiry of an unread episode was extended.",
        {"expires_at": "`{from, to}`, instants"},
    ),
    EventType.EPISODE_FORGOTTEN: Meaning(
        "An episode was forgotten; it expires at once.",
        {"expires_at": "`{from, to}`, instants"},
        _UNDO,
    ),
    EventType.EPISODE_EXPIRED: Meaning(
        "Cleanup moved an expired episode to the bin.", _REMOVED, _PIECE
    ),
    EventType.EPISODE_EVICTED: Meaning(
        "Cleanup moved a consolidated episode to the bin to stay within `max_entries`.", _REMOVED
    ),
    EventType.EPISODE_RESTORED: Meaning(
        "An episode was restored from the bin, or before it was moved there.",
        _moved(
            "`removed`, or its consolidation status if it had only expired",
            "its consolidation status",
            expires_at="when it expires now",
        ),
        _UNDO,
    ),
    EventType.EPISODE_DELETED: Meaning(
        "Cleanup deleted an episode from the bin for good.",
        {"binned_at": "when it was moved to the bin", "reason": "`expired` or `evicted`"},
    ),
    EventType.FACT_CREATED: Meaning(
        "A fact was stored.",
        {
            "to": "`active`, or `quarantined`",
            "subject": "what it is about",
            "predicate": "what it says about the subject",
            "scope": "`global`, or the butler it is for",
            "permanence": "how fast its confidence decays",
            "supersedes": "the fact it replaced, or null",
            **_SOURCE,
        },
        {
            "entity_id": "the entity it is about",
            **_DOUBTED,
            "accepted_by": "the person who said or accepted what it repeats",
            "valid_from": "from when it is true",
            "valid_to": "until when it is true",
            "copy_of": "the fact it was split from, for another validity window",
        },
    ),
    EventType.FACT_SUPERSEDED: Meaning(
        "Another fact replaced it: a newer one of its key, one with more confidence when entities "
        "were merged, or the one kept when a conflict was settled.",
        _moved(_STATE, "`superseded`", superseded_by="the fact that replaced it"),
        {**_WINDOW, **_SETTLED},
    ),
    EventType.FACT_BOUNDED: Meaning(
        "The validity window of a fact changed, because another fact of its key was stored or "
        "removed, or because somebody changed it.",
        _WINDOW,
        {"bounded_by": "the fact that limits it", **_SETTLED, **_UNDO},
    ),
    EventType.FACT_CONFIRMED: Meaning(
        "A fact was confirmed, or stored again.",
        _CONFIRMED,
        {
            "confidence": "`{from, to}`, if it was below 1",
            **_CITED,
            "same_as": "the earlier fact that said the same",
            "inherited": "the sources of that fact",
        },
    ),
    EventType.FACT_RETRACTED: Meaning(
        "A fact was forgotten.", _moved("the state before", "`retracted`"), _UNDO
    ),
    EventType.FACT_RESTORED: Meaning(
        "A forgotten fact was restored.",
        _moved("the state it was in", "the state before that"),
        {**_UNDO, **_WINDOW},
    ),
    EventType.FACT_FADING: Meaning(
        "The confidence of a fact fell below the retrieval threshold.",
        _moved("`active`", "`fading`", effective_confidence=_FADED),
        _UNDO,
    ),
    EventType.FACT_RECOVERED: Meaning(
        "A fading fact is above the retrieval threshold again.",
        _moved("`fading`", "`active`"),
        _SWEPT,
    ),
    EventType.FACT_ACCEPTED: Meaning(
        "A person released a fact from quarantine.",
        {**_moved("`quarantined`", "`active`"), **_RELEASED},
        _WINDOW,
    ),
    EventType.FACT_UNCONFIRMED: Meaning("Confirmations of a fact were undone.", _UNCONFIRMED),
    EventType.FACT_ANCHORED: Meaning(
        "A fact was linked to the entity its subject names, or unlinked.",
        {"entity_id": "the entity, or null", "pairs": "the data needed to undo it"},
        {"was_entity_id": "the previous entity, if it has none now", **_UNDO},
    ),
    EventType.FACT_EXPIRED: Meaning(
        "The confidence of a fact fell below the expiry threshold.",
        _moved(_STATE, "`expired`", effective_confidence=_FADED),
    ),
    EventType.RULE_CREATED: Meaning(
        "A rule was stored.",
        {"to": "`candidate`", "scope": "`global`, or the butler it is for", **_SOURCE},
        _DOUBTED,
    ),
    EventType.RULE_CONFIRMED: Meaning("A rule was confirmed.", _CONFIRMED, _CITED),
    EventType.RULE_FORGOTTEN: Meaning(
        "A rule was forgotten, or its confidence fell below the expiry threshold.",
        _moved(_STATE, "`forgotten`"),
        {**_SWEPT, **_UNDO},
    ),
    EventType.RULE_RESTORED: Meaning(
        "A forgotten rule was restored.", _moved("`forgotten`", _STATE), _UNDO
    ),
    EventType.RULE_FADING: Meaning(
        "The confidence of a rule fell below the retrieval threshold.",
        _moved("`active`", "`fading`", effective_confidence=_FADED),
        _UNDO,
    ),
    EventType.RULE_RECOVERED: Meaning(
        "A fading rule is above the retrieval threshold again.",
        _moved("`fading`", "`active`"),
        _SWEPT,
    ),
    EventType.RULE_MARKED_HELPFUL: Meaning(
        "A rule was marked helpful, which confirms it.",
        _COUNTS,
        {"last_confirmed_at": "`{from, to}`, instants, if the mark counts", **_UNCOUNTED},
    ),
    EventType.RULE_MARKED_HARMFUL: Meaning(
        "A rule was marked harmful.", {**_COUNTS, "reason": "what went wrong, or null"}, _UNCOUNTED
    ),
    EventType.RULE_UNMARKED: Meaning(
        "Marks of a rule were undone; the others still count.",
        _moved("the maturity before", "the maturity after", applications="the undone marks")
        | _UNDO,
    ),
    EventType.RULE_UNCONFIRMED: Meaning("Confirmations of a rule were undone.", _UNCONFIRMED),
    EventType.RULE_ACCEPTED: Meaning(
        "A person released a rule from quarantine.",
        {**_moved("`quarantined`", "`candidate`"), **_RELEASED},
    ),
    EventType.RULE_PROMOTED: Meaning(
        "Helpful marks raised the maturity of a rule.",
        _moved("the maturity before", "the next one"),
    ),
    EventType.RULE_DEMOTED: Meaning(
        "Harmful marks lowered the maturity of a rule.",
        _moved("the maturity before", "a lower one"),
    ),
    EventType.RULE_INVERTED: Meaning(
        "A rule with too many harmful marks became an anti-pattern, a warning against itself.",
        _moved(
            "the maturity before",
            "`anti_pattern`",
            original_content="the text of the rule",
            reasons="the reasons of its harmful marks, a list",
        ),
    ),
    EventType.LINK_CREATED: Meaning(
        "Two memories were linked; the event belongs to the source.",
        _LINK,
        {"repeats": "true if the source was stored later and says what the target says"},
    ),
    EventType.LINK_REMOVED: Meaning(
        "A link was removed by undoing its source, or by keeping a memory in doubt.", _LINK
    ),
    EventType.ENTITY_CREATED: Meaning(
        "An entity was created.",
        {
            "canonical_name": "its name",
            "entity_type": "`person`, `organization`, `place` or `other`",
            "aliases": "its other names",
            "metadata": "its other data",
        },
        {"by_itself": "true if a second fact with its name created it"},
    ),
    EventType.ENTITY_UPDATED: Meaning(
        "An entity's names or metadata were changed.",
        _moved("the changed fields as they were", "the changed fields as they are"),
        _UNDO,
    ),
    EventType.ENTITY_REMOVED: Meaning(
        "An entity was removed by undoing the source that created it.",
        {"canonical_name": "its name", "entity_type": "its type", **_UNDO},
    ),
    EventType.ENTITY_MERGE: Meaning(
        "Another entity was merged into this one.",
        {
            "source_entity_id": "the merged entity",
            "target_entity_id": "this one",
            "facts_repointed": "number of facts moved",
            "facts_superseded": "number of facts superseded by one with more confidence",
            "aliases_added": "number of names added",
            "moved": "the data needed to undo it",
        },
    ),
    EventType.ENTITY_PARTED: Meaning(
        "A merge was undone; the entity is separate again.",
        {"source_entity_id": "this one", "target_entity_id": "the other", **_UNDO},
    ),
    EventType.MEMORY_ERASED: Meaning(
        "A person, a session or a tenant was erased; the event belongs to no single memory.",
        {
            "counts": "number of each kind",
            "event_ids": "the events whose texts were replaced by their hashes",
        },
    ),
    EventType.PROPOSAL_MADE: Meaning(
        "A change was proposed and waits for approval.",
        {
            "to": "`waiting`",
            "kind": "the proposed change",
            "sources": "the episodes it was drawn from",
            "target_id": "the memory it would replace or confirm, or null",
            "reason": "why it needs approval",
        },
    ),
    EventType.PROPOSAL_ACCEPTED: Meaning(
        "A proposal was accepted and applied.",
        _moved(
            "`waiting`", "`accepted`", about="`fact` or `rule`", about_id="the resulting memory"
        ),
    ),
    EventType.PROPOSAL_DECLINED: Meaning(
        "A proposal was declined; it is not made again.", _moved("`waiting`", "`declined`")
    ),
    EventType.PROJECT_SHARED: Meaning(
        "A project was shared with every project, or no longer.",
        {"project": "the project", "shared": "`{from, to}`"},
    ),
    EventType.PROJECT_MOVED: Meaning(
        "A project was moved into another, or separated again.",
        {"project": "the project", "moved_to": "`{from, to}`, ids of projects or null"},
    ),
    EventType.CONFLICT_FOUND: Meaning(
        "A fact was stored that may contradict or repeat another.",
        {"to": "`open`", "kind": "`conflict` or `same`", "score": "how likely that is", **_SIDES},
    ),
    EventType.CONFLICT_SETTLED: Meaning(
        "A conflict was settled: one of two facts is true, or both are.",
        _moved("`open`", "the decision", kind="`conflict` or `same`") | _SIDES,
    ),
    EventType.CONFLICT_REOPENED: Meaning(
        "A settled conflict is open again, because the source that settled it was undone.",
        _moved("the decision", "`open`", kind="`conflict` or `same`") | _SIDES | _UNDO,
    ),
    EventType.MEMORY_PREDICATE_TOLD: Meaning(
        "It was set or learned how many values a predicate has.",
        {"to": "`one` or `many`", "predicate": "the predicate", "told": "true if set explicitly"},
    ),
}

HEAD = """\
# Events

<!-- Written by `make docs`, and checked. -->

Every change to a butler's memory writes exactly one event for each thing that changed, in the same
transaction. Events are in the table `memory_events`. Nobody can change, delete or truncate them.

```
butlers audit history ID      # the events of one memory
butlers why ID      # what they amount to
butlers audit activity        # the newest events
```

| column | meaning |
|---|---|
| `event_type` | what happened, see below |
| `memory_type`, `memory_id` | what it happened to; a project is named in the payload |
| `actor` | who did it: `token:` and its id, `cli`, `python`, `local`, or a job |
| `request_id` | in which request, if the caller sent an id |
| `tenant_id` | the tenant |
| `payload` | what changed, see below |
| `created_at`, `sequence` | when, and in which order |

Instants are ISO 8601 in UTC; ids are UUIDs.

## Verify the chain

The events of a tenant form a chain in the order of their commits. `memory_event_chain` stores for
each event its position and a SHA-256 hash over the previous hash and all columns above except
`sequence`. `butlers audit verify` checks the chain and names the first events that were changed,
removed or added by other means.

Somebody who can rewrite the whole database can rewrite the chain too, or cut off its end. So
`verify` also prints the head of the chain. Save it elsewhere now and then:
`butlers audit verify --since-head HASH` checks that everything up to it is still there.

Erasing a text keeps the chain valid. A payload is hashed by the marks of its values (`sha256:` and
the hash of a text, or of the marks below it), and an erased text is replaced by its own mark. Only
the functions `erase_event_texts` and `erase_application_texts` can do this. Ids, instants, numbers
and states stay. `verify` reports how many events had texts erased, and fails if no event
`memory_erased` lists them in its `event_ids`.
"""


def events_markdown() -> str:
    """Write the whole page."""
    subjects = [*EventSubject, "memory"]
    return "\n".join([HEAD, *(line for subject in subjects for line in _section(subject))])


def _section(subject: str) -> Iterator[str]:
    yield from (f"## {subject.capitalize()}", "")
    yield from ("| event | when | payload |", "|---|---|---|")
    for kind in EventType:
        if kind.startswith(f"{subject}_"):
            meaning = EVENTS[kind]
            yield f"| `{kind}` | {meaning.text} | {'<br>'.join(_keys(meaning))} |"
    yield ""


def _keys(meaning: Meaning) -> Iterator[str]:
    for key in sorted(meaning.payload, key=lambda key: (key != "from", key != "to")):
        yield f"`{key}`: {meaning.payload[key]}"
    for key, text in meaning.sometimes.items():
        yield f"`{key}` (not always): {text}"
