"""Tools that store."""

from butlers.memory.flows import remember
from butlers.memory.model import NewEpisode, NewFact, NewRule, Permanence
from butlers.memory.policy.inputs import checked_id, checked_word
from butlers.memory.tools.calling import Desk
from butlers.memory.tools.parameters import (
    Butler,
    EpisodeText,
    FactText,
    HowLong,
    Importance,
    KnownEntityId,
    Predicate,
    RequestContext,
    RuleText,
    Scope,
    SessionId,
    Subject,
    Tags,
)
from butlers.memory.tools.results import EpisodeStored, FactStored, RuleStored


class WritingTools:
    """Remembering what happened, what is true and how to behave."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def memory_store_episode(
        self,
        content: EpisodeText,
        butler: Butler,
        session_id: SessionId = None,
        importance: Importance = 5.0,
        request_context: RequestContext = None,
    ) -> EpisodeStored:
        """Store what happened: a short account of a session or an observation.

        Use it at the end of a piece of work, or when something worth keeping happened that is
        not yet a settled fact. Episodes are short-lived raw material; they expire after some
        days and are consolidated into facts and rules before that.

        Returns {id, expires_at}.
        """
        lineage = self._desk.lineage(request_context)
        session = None if session_id is None else checked_id("session_id", session_id)
        new = NewEpisode(content, butler, session, importance)
        stored = await remember.store_episode(self._desk.memory(), new, lineage)
        return EpisodeStored(id=str(stored.id), expires_at=stored.expires_at.isoformat())

    async def memory_store_fact(  # noqa: PLR0913  one for each field a caller may fill in
        self,
        subject: Subject,
        predicate: Predicate,
        content: FactText,
        importance: Importance = 5.0,
        permanence: HowLong = "standard",
        scope: Scope = "global",
        tags: Tags = None,
        entity_id: KnownEntityId = None,
        request_context: RequestContext = None,
    ) -> FactStored:
        """Store something that is true, as subject, predicate and content.

        Use it for what you learn about people, projects, places and preferences, e.g.
        subject "Ann", predicate "allergy", content "peanuts; carries an EpiPen". A fact with the
        same scope, subject (or entity) and predicate replaces the earlier one, which is kept as
        history: so correct a fact by storing it again under the same key.

        Returns {id, superseded_id}; superseded_id is the fact it replaced, or null.
        """
        lineage = self._desk.lineage(request_context)
        new = NewFact(
            subject=subject,
            predicate=predicate,
            content=content,
            importance=importance,
            permanence=checked_word("permanence", permanence, Permanence),
            scope=scope,
            tags=tuple(tags or ()),
            entity_id=None if entity_id is None else checked_id("entity_id", entity_id),
            source_butler=self._desk.surroundings.butler,
        )
        stored = await remember.store_fact(self._desk.memory(), new, lineage)
        replaced = stored.superseded_id
        return FactStored(id=str(stored.id), superseded_id=str(replaced) if replaced else None)

    async def memory_store_rule(
        self,
        content: RuleText,
        scope: Scope = "global",
        tags: Tags = None,
        request_context: RequestContext = None,
    ) -> RuleStored:
        """Store how to behave: one instruction learned from experience.

        Use it when something worked, or the user asked for a way of working, that should be
        followed next time too, e.g. "Ask before booking anything that costs money". It starts as
        a candidate; say memory_mark_helpful or memory_mark_harmful after following it.

        Returns {id}.
        """
        lineage = self._desk.lineage(request_context)
        new = NewRule(content, scope, tuple(tags or ()), self._desk.surroundings.butler)
        stored = await remember.store_rule(self._desk.memory(), new, lineage)
        return RuleStored(id=str(stored.id))
