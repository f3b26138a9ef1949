"""Tools that store."""

from typing import Any

from butlers.modules.memory.flows import remember
from butlers.modules.memory.model import NewEpisode, NewFact, NewRule, Permanence
from butlers.modules.memory.policy.inputs import checked_id, checked_word
from butlers.modules.memory.policy.presentation import as_json
from butlers.modules.memory.tools.calling import Desk, RequestContext, traced


class WritingTools:
    """Remembering what happened, what is true and how to behave."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def memory_store_episode(
        self,
        content: str,
        butler: str,
        session_id: str | None = None,
        importance: float = 5.0,
        request_context: RequestContext = None,
    ) -> dict[str, Any]:
        """Store what happened: a short account of a session or an observation.

        Use it at the end of a piece of work, or when something worth keeping happened that is
        not yet a settled fact. Episodes are short-lived raw material; they expire after some
        days and are consolidated into facts and rules before that.

        butler: whose episode it is. session_id: a UUID, if there was a session.
        importance: 0 (trivial) to 10 (vital). Returns {id, expires_at}.
        """
        lineage = self._desk.lineage(request_context)
        session = None if session_id is None else checked_id("session_id", session_id)
        new = NewEpisode(content, butler, session, importance)
        stored = await remember.store_episode(self._desk.memory(), new, lineage)
        return traced(as_json({"id": stored.id, "expires_at": stored.expires_at}), lineage)

    async def memory_store_fact(
        self,
        subject: str,
        predicate: str,
        content: str,
        importance: float = 5.0,
        permanence: str = "standard",
        scope: str = "global",
        tags: list[str] | None = None,
        entity_id: str | None = None,
        request_context: RequestContext = None,
    ) -> dict[str, Any]:
        """Store something that is true, as subject, predicate and content.

        Use it for what you learn about people, projects, places and preferences, e.g.
        subject "Ann", predicate "allergy", content "peanuts; carries an EpiPen". A fact with the
        same scope, subject (or entity) and predicate replaces the earlier one, which is kept as
        history: so correct a fact by storing it again under the same key.

        permanence: how long it stays true unless confirmed: permanent (birthplace), stable
        (years), standard (months), volatile (weeks), ephemeral (days).
        scope: "global", or the name of one butler. tags: free labels.
        entity_id: from entity_resolve or entity_create, when the subject is a known entity.
        importance: 0 to 10. Returns {id, superseded_id}; superseded_id is the fact it replaced.
        """
        lineage = self._desk.lineage(request_context)
        new = NewFact(
            subject, predicate, content, importance, checked_word("permanence", permanence, Permanence), scope,
            tuple(tags or ()), None if entity_id is None else checked_id("entity_id", entity_id),
            self._desk.surroundings.butler,
        )  # fmt: skip
        stored = await remember.store_fact(self._desk.memory(), new, lineage)
        return traced(as_json({"id": stored.id, "superseded_id": stored.superseded_id}), lineage)

    async def memory_store_rule(
        self,
        content: str,
        scope: str = "global",
        tags: list[str] | None = None,
        request_context: RequestContext = None,
    ) -> dict[str, Any]:
        """Store how to behave: one instruction learned from experience.

        Use it when something worked, or the user asked for a way of working, that should be
        followed next time too, e.g. "Ask before booking anything that costs money". It starts as
        a candidate; say memory_mark_helpful or memory_mark_harmful after following it.

        scope: "global", or the name of one butler. Returns {id}.
        """
        lineage = self._desk.lineage(request_context)
        new = NewRule(content, scope, tuple(tags or ()), self._desk.surroundings.butler)
        stored = await remember.store_rule(self._desk.memory(), new, lineage)
        return traced(as_json({"id": stored.id}), lineage)
