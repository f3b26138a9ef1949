"""What each event means and what its payload holds, and the reference written from that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from butlers.memory.model import EventSubject, EventType


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an event says: the keys its payload always has, and those it may have."""

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
    "butler": "whose episode it was",
    "created_at": "when it was stored",
    "expires_at": "when it expired or would have",
}
_ATTEMPT = {
    "from": "the consolidation status before",
    "attempts": "how many attempts were made by now",
    "reason": "what went wrong",
    "retry_at": "when it is due again, or null",
}
_COUNTS = {
    "applied_count": "`{from, to}`",
    "success_count": "`{from, to}`",
    "harmful_count": "`{from, to}`",
    "effectiveness_score": "`{from, to}`",
}
_SWEPT = {"effective_confidence": "what was left of its confidence, when the decay sweep did it"}
_FADED = "what was left of its confidence"
_CITED = {"episodes": "the episodes that say so, where consolidation found it"}
_CONFIRMED = {"last_confirmed_at": "`{from, to}`, instants"}
_STATE = "`active` or `fading`"
_WINDOW = {"window": "`{from, to}`: since when it holds and when no longer, before and now"}
_DOUBTED = {
    "origin": "who said it, where it was not stated",
    "trust": "how far it is trusted, where it was not stated",
    "quarantined": "why it waits in quarantine, where it does",
}
_LINK = {
    "source_type": "`episode`, `fact` or `rule`",
    "source_id": "where the link leaves",
    "target_type": "`episode`, `fact` or `rule`",
    "target_id": "where it leads",
    "relation": "what the source is to the target",
}
_UNCOUNTED = {"counted": "false where whoever said so is less trusted than the rule"}
_SETTLED = {"conflict": "the conflict, where settling one did it"}
_SIDES = {"newer_id": "the newer fact", "older_id": "the older one"}
_UNDO = {"undo": "true where it is part of taking back a source"}
_WINDOW = {"window": "`{from, to}`, when it held before and holds now, where that changed"}
_UNCONFIRMED = {
    "last_confirmed_at": "when it was confirmed last without them, or null",
    "confirmations": "the events that count no more",
    **_UNDO,
}

EVENTS: Mapping[EventType, Meaning] = {
    EventType.EPISODE_CREATED: Meaning(
        "An episode was stored.",
        {"to": "`pending`", "butler": "whose episode it is", "importance": "0 to 10"},
        {
            "place": "which part of a session it is: 0, 1, 2 …",
            "through": "the last instant of the session that this part covers",
            "after": "the episode of the part before, or null",
            **_DOUBTED,
        },
    ),
    EventType.EPISODE_ACCEPTED: Meaning(
        "A person let an episode out of quarantine.", _moved("`quarantined`", "`pending`")
    ),
    EventType.EPISODE_CONSOLIDATED: Meaning(
        "An episode was read by consolidation, and need not be read again.",
        _moved(
            "the consolidation status before",
            "`consolidated`",
            created="the facts and rules its batch led to, each `{type, id}`",
        ),
    ),
    EventType.EPISODE_CONSOLIDATION_FAILED: Meaning(
        "An attempt to consolidate an episode failed; it is tried again.",
        {**_ATTEMPT, "to": "`failed`"},
    ),
    EventType.EPISODE_DEAD_LETTERED: Meaning(
        "The last attempt to consolidate an episode failed; it waits for a person.",
        {**_ATTEMPT, "to": "`dead_letter`"},
    ),
    EventType.EPISODE_REQUEUED: Meaning(
        "A dead letter was given another chance.",
        _moved(
            "`dead_letter`",
            "`pending`",
            reason="why it had been given up",
            attempts="how many attempts had been made",
        ),
    ),
    EventType.EPISODE_KEPT: Meaning(
        "The expiry of an episode that nobody had read was moved.",
        {"expires_at": "`{from, to}`, instants"},
    ),
    EventType.EPISODE_FORGOTTEN: Meaning(
        "Somebody asked to forget an episode: it expired at once.",
        {"expires_at": "`{from, to}`, instants"},
        _UNDO,
    ),
    EventType.EPISODE_EXPIRED: Meaning(
        "Cleanup put an episode that had expired into the bin.", _REMOVED
    ),
    EventType.EPISODE_EVICTED: Meaning(
        "Cleanup put a consolidated episode into the bin to stay within `max_entries`.", _REMOVED
    ),
    EventType.EPISODE_RESTORED: Meaning(
        "Somebody took an episode out of the bin, or back before it went there.",
        _moved(
            "`removed`, or its consolidation status where it had only expired",
            "its consolidation status",
            expires_at="when it expires now",
        ),
        _UNDO,
    ),
    EventType.EPISODE_DELETED: Meaning(
        "Cleanup emptied the bin of an episode, which is gone for good.",
        {"binned_at": "when it was put there", "reason": "`expired` or `evicted`"},
    ),
    EventType.FACT_CREATED: Meaning(
        "A fact was stored.",
        {
            "to": "`active`, or `quarantined`",
            "subject": "whom or what it is about",
            "predicate": "what about it",
            "scope": "`global`, or the butler it is for",
            "permanence": "how long it stays true unless confirmed",
            "supersedes": "the fact it replaced, or null",
            **_SOURCE,
        },
        {
            "entity_id": "the entity it is about",
            **_DOUBTED,
            "valid_from": "since when it holds",
            "valid_to": "when it no longer holds",
            "copy_of": "the fact of which it keeps another time",
        },
    ),
    EventType.FACT_SUPERSEDED: Meaning(
        "Another fact took its place: a newer one of its key, a surer one when entities were "
        "merged, or the one that holds where two excluded each other.",
        _moved(_STATE, "`superseded`", superseded_by="the fact that replaced it"),
        {**_WINDOW, **_SETTLED},
    ),
    EventType.FACT_BOUNDED: Meaning(
        "A fact holds at another time than before, because another of its key was told or gone, or "
        "somebody said so.",
        _WINDOW,
        {"bounded_by": "the fact that it makes room for", **_SETTLED, **_UNDO},
    ),
    EventType.FACT_CONFIRMED: Meaning(
        "Somebody said that a fact still holds, or stored what it says again.",
        _CONFIRMED,
        {
            "confidence": "`{from, to}`, where it was not sure from the first",
            **_CITED,
            "same_as": "the fact that said the same before it",
            "inherited": "what that one was drawn from",
        },
    ),
    EventType.FACT_RETRACTED: Meaning(
        "Somebody asked to forget a fact.", _moved("the state before", "`retracted`"), _UNDO
    ),
    EventType.FACT_RESTORED: Meaning(
        "Somebody took back that a fact was forgotten.",
        _moved("the state it was in", "the state before that"),
        {**_UNDO, **_WINDOW},
    ),
    EventType.FACT_FADING: Meaning(
        "A fact lost so much confidence that it is no longer retrieved.",
        _moved("`active`", "`fading`", effective_confidence=_FADED),
    ),
    EventType.FACT_RECOVERED: Meaning(
        "A fading fact is sure again.", _moved("`fading`", "`active`"), _SWEPT
    ),
    EventType.FACT_ACCEPTED: Meaning(
        "A person let a fact out of quarantine.", _moved("`quarantined`", "`active`"), _WINDOW
    ),
    EventType.FACT_UNCONFIRMED: Meaning("Confirmations of a fact were taken back.", _UNCONFIRMED),
    EventType.FACT_ANCHORED: Meaning(
        "A fact became one of an entity that bears its subject's name, or ceased to be.",
        {"entity_id": "the entity, or null", "pairs": "what it takes to take it back"},
        {"was_entity_id": "the entity before, where it is none now", **_UNDO},
    ),
    EventType.FACT_EXPIRED: Meaning(
        "A fact lost so much confidence that it no longer holds.",
        _moved(_STATE, "`expired`", effective_confidence=_FADED),
    ),
    EventType.RULE_CREATED: Meaning(
        "A rule was stored.",
        {"to": "`candidate`", "scope": "`global`, or the butler it is for", **_SOURCE},
        _DOUBTED,
    ),
    EventType.RULE_CONFIRMED: Meaning("Somebody said that a rule still holds.", _CONFIRMED, _CITED),
    EventType.RULE_FORGOTTEN: Meaning(
        "Somebody asked to forget a rule, or nothing was left of its confidence.",
        _moved(_STATE, "`forgotten`"),
        {**_SWEPT, **_UNDO},
    ),
    EventType.RULE_RESTORED: Meaning(
        "Somebody took back that a rule was forgotten.", _moved("`forgotten`", _STATE), _UNDO
    ),
    EventType.RULE_FADING: Meaning(
        "A rule lost so much confidence that it is no longer retrieved.",
        _moved("`active`", "`fading`", effective_confidence=_FADED),
    ),
    EventType.RULE_RECOVERED: Meaning(
        "A fading rule is sure again.", _moved("`fading`", "`active`"), _SWEPT
    ),
    EventType.RULE_MARKED_HELPFUL: Meaning(
        "Following a rule helped, which confirms it.",
        _COUNTS,
        {"last_confirmed_at": "`{from, to}`, instants, where the mark counts", **_UNCOUNTED},
    ),
    EventType.RULE_MARKED_HARMFUL: Meaning(
        "Following a rule did harm.", {**_COUNTS, "reason": "what harm, or null"}, _UNCOUNTED
    ),
    EventType.RULE_UNMARKED: Meaning(
        "Marks on a rule were taken back, which is what the others leave it.",
        _moved("the maturity before", "the maturity since", applications="the marks") | _UNDO,
    ),
    EventType.RULE_UNCONFIRMED: Meaning("Confirmations of a rule were taken back.", _UNCONFIRMED),
    EventType.RULE_ACCEPTED: Meaning(
        "A person let a rule out of quarantine.", _moved("`quarantined`", "`candidate`")
    ),
    EventType.RULE_PROMOTED: Meaning(
        "Help made a rule rise a step.", _moved("the maturity before", "the next one")
    ),
    EventType.RULE_DEMOTED: Meaning(
        "Harm made a rule fall.", _moved("the maturity before", "a lower one")
    ),
    EventType.RULE_INVERTED: Meaning(
        "A rule that kept doing harm became a warning against itself.",
        _moved(
            "the maturity before",
            "`anti_pattern`",
            original_content="what the rule said",
            reasons="what harm it did, a list",
        ),
    ),
    EventType.LINK_CREATED: Meaning(
        "Two memories were linked; the event stands with the source.", _LINK
    ),
    EventType.LINK_REMOVED: Meaning(
        "A link was taken back with what it came from, or what was in doubt was kept.", _LINK
    ),
    EventType.ENTITY_CREATED: Meaning(
        "An entity was created.",
        {
            "canonical_name": "its name",
            "entity_type": "`person`, `organization`, `place` or `other`",
            "aliases": "its other names",
            "metadata": "what else was given",
        },
        {"by_itself": "true where a second fact of its name made it"},
    ),
    EventType.ENTITY_UPDATED: Meaning(
        "An entity's names or metadata were changed.",
        _moved("the changed fields as they were", "the changed fields as they are"),
        _UNDO,
    ),
    EventType.ENTITY_REMOVED: Meaning(
        "An entity was taken back with the source that created it.",
        {"canonical_name": "its name", "entity_type": "what it was", **_UNDO},
    ),
    EventType.ENTITY_MERGE: Meaning(
        "Another entity became part of this one.",
        {
            "source_entity_id": "the one merged away",
            "target_entity_id": "this one",
            "facts_repointed": "how many facts came over",
            "facts_superseded": "how many facts gave way to a surer one",
            "aliases_added": "how many names came over",
            "moved": "what it takes to part them again",
        },
    ),
    EventType.ENTITY_PARTED: Meaning(
        "A merge was taken back: the entity is one of its own again.",
        {"source_entity_id": "this one", "target_entity_id": "the other", **_UNDO},
    ),
    EventType.MEMORY_ERASED: Meaning(
        "Somebody erased a person, a session or all there was; it is about no one memory.",
        {
            "counts": "how many of each kind",
            "event_ids": "the events whose texts were replaced by their hashes",
        },
    ),
    EventType.PROPOSAL_MADE: Meaning(
        "What was drawn from episodes waits for somebody's yes.",
        {
            "to": "`waiting`",
            "kind": "what it would do",
            "sources": "the episodes it was drawn from",
            "target_id": "what it would replace or confirm, or null",
            "reason": "why it was not done at once",
        },
    ),
    EventType.PROPOSAL_ACCEPTED: Meaning(
        "Somebody said yes, and it was done.",
        _moved("`waiting`", "`accepted`", about="`fact` or `rule`", about_id="which it led to"),
    ),
    EventType.PROPOSAL_DECLINED: Meaning(
        "Somebody said no, and it is not proposed again.", _moved("`waiting`", "`declined`")
    ),
    EventType.PROJECT_SHARED: Meaning(
        "What a project remembers is told in every project, or no longer.",
        {"project": "which", "shared": "`{from, to}`"},
    ),
    EventType.PROJECT_MOVED: Meaning(
        "A project became a part of another, or one of its own again.",
        {"project": "which", "moved_to": "`{from, to}`, ids of projects or null"},
    ),
    EventType.CONFLICT_FOUND: Meaning(
        "A fact was stored that may exclude, or repeats, what another says.",
        {"to": "`open`", "kind": "`conflict` or `same`", "score": "how sure that is", **_SIDES},
    ),
    EventType.CONFLICT_SETTLED: Meaning(
        "Somebody said which of two facts holds, or that both do.",
        _moved("`open`", "what was said", kind="`conflict` or `same`") | _SIDES,
    ),
    EventType.MEMORY_PREDICATE_TOLD: Meaning(
        "Somebody said how many values a predicate has, or settled a conflict that shows it.",
        {"to": "`one` or `many`", "predicate": "which", "told": "whether in so many words"},
    ),
}

HEAD = """\
# Events

<!-- Written by `make docs`, and checked. -->

Every change to a butler's memory writes exactly one event for each thing that changed, in the
transaction that makes the change. Events are kept in the table `memory_events`, to which no other
statement adds and in which none changes, deletes or empties:

| column | meaning |
|---|---|
| `event_type` | what happened, see below |
| `memory_type`, `memory_id` | what it happened to; a project is named in the payload |
| `actor` | who asked: `token:` and its id, `cli`, `python`, `local`, or the job that did it |
| `request_id` | in which request, if the caller named one |
| `tenant_id` | whose memory it is |
| `payload` | what changed from what to what, see below |
| `created_at`, `sequence` | when, and in which order |

`butlers memory history ID` tells the events of one memory, `butlers memory explain ID` what they
amount to. Instants are ISO 8601 in UTC; ids are UUIDs.

## The chain

The events of a tenant form a chain, in the order they were committed: `memory_event_chain` keeps
for each its place and a SHA-256 hash over the hash before it and all columns above but `sequence`.
`butlers memory verify` walks it and names the first events that were changed, removed or added by
other means. Whoever may rewrite the whole database may rewrite the chain too, or cut both off at
the end; so `verify` also answers the head of the chain. Note it elsewhere now and then:
`butlers memory verify --since-head HASH` says whether all that it stood for is still there.

Erasing a text leaves the chain as it was: a payload counts by the marks of its values (`sha256:`
and the hash of a text, or of the marks of what lies below), and a text gives way to its own mark,
by the functions `erase_event_texts` and `erase_application_texts` alone. Ids, instants, numbers and
states stay. `verify` tells how many events had texts erased, and takes it for a fault where no
event `memory_erased` names them as its `event_ids`.
"""


def events_markdown() -> str:
    """The whole reference."""
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
