"""Operations that store episodes, facts and rules, and correct facts."""

from typing import Annotated, Any

from pydantic import AwareDatetime

from butlers.memory.flows import correct as correction
from butlers.memory.flows import remember
from butlers.memory.flows.results import StoredEpisode, StoredFact, StoredRule
from butlers.memory.model import EventSubject, MemoryType, NewEpisode, NewFact, NewRule, Permanence
from butlers.memory.operations import input_fields
from butlers.memory.operations.operation_context import OperationContext, writes
from butlers.memory.operations.results import EpisodeStored, FactStored, StoreResult
from butlers.memory.policy.inputs import MAX_PLACE
from butlers.operation import Input, Route, Toolset


class ProvenanceInput(input_fields.Attached):
    """Who said something, when and in which session; each helps to find it."""

    session_id: input_fields.Uuid | None = None
    """The session's UUID."""
    place: Annotated[int, *input_fields.within(0, MAX_PLACE)] | None = None
    """Its place in the session; last if omitted."""
    author: input_fields.Subject | None = None
    """Who said it."""
    said_at: AwareDatetime | None = None
    """When it was said, if not now."""


class StoreEpisode(ProvenanceInput):
    """What happened."""

    content: str
    """What happened, in a few sentences."""
    butler: input_fields.Scope | None = None
    """The butler's name, e.g. general."""
    importance: input_fields.Importance = 5.0


@writes(
    command="store episode",
    output=EpisodeStored,
    keeps_scopes=True,
    toolset=Toolset.CORE,
    tool_needs=("butler",),
    tool_without=("place", "author", "said_at"),
    example='store episode "Ann called; the dinner moves to Friday."',
    routes=(Route("POST", "/episodes", 201),),
)
async def store_episode(ctx: OperationContext, params: StoreEpisode) -> StoredEpisode:
    """Store what happened: a short account of a session or an observation.

    Use it at the end of a piece of work, or when something worth keeping happened that is not yet
    a settled fact. An episode expires some days after facts and rules were drawn from it. Returns
    {id, expires_at}.
    """
    new = NewEpisode(**await episode_fields(ctx, params))
    return await remember.store_episode(ctx.memory, new, ctx.lineage)


async def episode_fields(ctx: OperationContext, params: StoreEpisode) -> dict[str, Any]:
    """Return the fields of the episode to store, in the butler or project of the caller."""
    own = ctx.memory.butler
    butler = await ctx.store_scope(own, None if params.butler == own else params.butler, "butler")
    return {**dict(params), "butler": butler, "metadata": params.metadata or {}}


class StoreFactInput(ProvenanceInput):
    """What is true."""

    subject: input_fields.Subject
    """Who or what it is about, e.g. Ann."""
    predicate: input_fields.Predicate
    """Which property it gives, e.g. allergy."""
    content: str
    """What is true, e.g. peanuts; carries an EpiPen."""
    importance: input_fields.Importance = 5.0
    permanence: input_fields.HowLong = Permanence.STANDARD
    """How long it stays true unless confirmed: stable years, standard months, volatile weeks,
    ephemeral days."""
    scope: input_fields.ScopeStored = "global"
    tags: input_fields.Labels = None
    entity_id: input_fields.EntityId | None = None
    """The subject's entity; if omitted, the one with that name."""
    source_episode_id: input_fields.Uuid | None = None
    """The episode it was drawn from."""
    depends_on: input_fields.Grounds = None
    valid_from: input_fields.Boundary | None = None
    """Since when it holds."""
    valid_to: input_fields.Boundary | None = None
    """When it no longer does."""


@writes(
    command="store fact",
    output=FactStored,
    keeps_scopes=True,
    toolset=Toolset.CORE,
    tool_without=("session_id", "place", "author"),
    example='store fact Ann allergy "peanuts; carries an EpiPen" --permanence permanent',
    routes=(Route("POST", "/facts", 201),),
)
async def store_fact(ctx: OperationContext, params: StoreFactInput) -> StoredFact:
    """Store something that is true, as subject, predicate and content.

    Use it for what you learn about people, projects, places and preferences, e.g. subject "Ann",
    predicate "allergy", content "peanuts; carries an EpiPen". A fact with the same scope, subject
    (or entity) and predicate replaces the earlier one, which is kept as history: so correct a fact
    by storing it again under the same key. A fact of another time (valid_from, valid_to) is stored
    beside it.

    Returns {id, superseded_id}: superseded_id is the fact it replaced, or null. Also entity_id if
    the subject names one entity, or entity_candidates if it names several. in_doubt lists memories
    that depend on the replaced fact: ask the user whether they still hold.
    """
    new = NewFact(**await derived_fields(ctx, params))
    return await remember.store_fact(ctx.memory, new, ctx.lineage)


class StoreRuleInput(input_fields.Attached):
    """How to behave."""

    content: str
    """One instruction, in a sentence or two."""
    scope: input_fields.ScopeStored = "global"
    tags: input_fields.Labels = None
    source_episode_id: input_fields.Uuid | None = None
    """The episode it was drawn from."""
    depends_on: input_fields.Grounds = None


@writes(
    command="store rule",
    output=StoreResult,
    keeps_scopes=True,
    toolset=Toolset.CORE,
    tool_without=("depends_on",),
    example='store rule "Ask before booking anything that costs money"',
    routes=(Route("POST", "/rules", 201),),
)
async def store_rule(ctx: OperationContext, params: StoreRuleInput) -> StoredRule:
    """Store how to behave: one instruction learned from experience.

    Use it when something worked, or the user asked for a way of working, that should be followed
    next time too, e.g. "Ask before booking anything that costs money". It starts as a candidate;
    call memory_mark_helpful or memory_mark_harmful after you followed it. Returns {id}.
    """
    new = NewRule(**await derived_fields(ctx, params))
    return await remember.store_rule(ctx.memory, new, ctx.lineage)


async def derived_fields(
    ctx: OperationContext, params: StoreFactInput | StoreRuleInput
) -> dict[str, Any]:
    """Return the fields of a fact or rule to store; raise NotFound for what it names in vain."""
    fields = {**dict(params), "tags": tuple(params.tags or ()), "metadata": params.metadata or {}}
    if (entity := fields.get("entity_id")) is not None:
        fields["entity_id"] = await ctx.known_id("entity_id", entity, EventSubject.ENTITY)
    named = params.scope if "scope" in params.model_fields_set else None
    fields["scope"] = await ctx.store_scope(params.scope, named)
    if params.source_episode_id is not None:
        await ctx.check_source(params.source_episode_id)
    depends_on = [await ctx.must_find(id) for id in params.depends_on or ()]
    fields["depends_on"] = tuple(dict.fromkeys(depends_on))
    return fields | {"source_butler": ctx.memory.butler}


class CorrectFact(Input):
    """What a fact should have said; omitted fields stay as they are."""

    fact_id: input_fields.FactId
    content: str
    """What is true instead."""
    importance: input_fields.Importance | None = None
    """0 (trivial) to 10 (vital)."""
    permanence: input_fields.HowLong | None = None
    """How long it stays true unless confirmed."""


@writes(
    output=FactStored,
    keeps_scopes=True,
    example='correct 1f0c9a77 "cashews"',
    routes=(Route("POST", "/facts/{fact_id}/correct", 201),),
)
async def correct(ctx: OperationContext, params: CorrectFact) -> StoredFact:
    """Correct a fact: store what it should have said, under the same key.

    The old fact stays as history; undo_correction restores what it said. A rule or an episode is
    stored anew and linked to the old one, which is forgotten. Returns {id, superseded_id}.
    """
    ref = await ctx.find(params.fact_id)
    if ref is not None and ref.type is not MemoryType.FACT:
        return await correction.correct_memory(ctx.memory, ref, params.content, ctx.lineage)
    fact_id = await ctx.known_id("fact_id", params.fact_id, EventSubject.FACT)
    given = params.model_dump(include={"importance", "permanence"})
    return await correction.correct_fact(ctx.memory, fact_id, params.content, ctx.lineage, **given)


class UndoCorrection(Input):
    """The fact whose correction to undo."""

    fact_id: input_fields.FactId


@writes(
    command="memory undo-correction",
    output=FactStored,
    keeps_scopes=True,
    example="memory undo-correction 1f0c9a77",
    routes=(Route("POST", "/facts/{fact_id}/undo", 201),),
)
async def undo_correction(ctx: OperationContext, params: UndoCorrection) -> StoredFact:
    """Undo a correction: store again what the fact said before.

    Both stay as history. Returns {id, superseded_id}.
    """
    fact_id = await ctx.known_id("fact_id", params.fact_id, EventSubject.FACT)
    return await correction.undo_correction(ctx.memory, fact_id, ctx.lineage)
