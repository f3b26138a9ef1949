"""Pages of facts, rules and episodes: lists, details, search, context preview and the bin."""

from collections.abc import Iterable
from typing import Any, Literal
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from butlers.errors import Conflict, NotFound
from butlers.interfaces.web import charts, pictures
from butlers.interfaces.web.pages import go_to, render_butler
from butlers.interfaces.web.visits import (
    ButlerSending,
    ButlerVisit,
    ButlerVisiting,
    filled_fields,
    operation_fields,
    search_fields,
)
from butlers.memory.model import (
    ConsolidationStatus,
    EntityType,
    Maturity,
    MemoryType,
    Permanence,
    SearchMode,
)
from butlers.memory.operations import (
    conflicts,
    decisions,
    feedback,
    listing,
    retrieval,
    storage,
    upkeep,
)
from butlers.memory.policy.states import EntityState, EpisodeState, FactState, RuleUse
from butlers.operation import Operation

router = APIRouter(prefix="/butlers/{name}/memory")
Kinds = Literal["facts", "rules", "episodes"]
KINDS = {"facts": MemoryType.FACT, "rules": MemoryType.RULE, "episodes": MemoryType.EPISODE}
_RECALL = "recall"
_MODES = {
    _RECALL: "recall",
    SearchMode.HYBRID: "both",
    SearchMode.SEMANTIC: "meaning",
    SearchMode.KEYWORD: "words",
}
# The lists, and the choices of their filters.
_LISTS: dict[str, tuple[Operation, dict[str, Iterable[str]]]] = {
    "facts": (listing.list_facts, {"state": FactState, "permanence": Permanence}),
    "rules": (listing.list_rules, {"state": RuleUse, "maturity": Maturity}),
    "episodes": (listing.list_episodes, {"state": EpisodeState, "status": ConsolidationStatus}),
    "entities": (listing.list_entities, {"state": EntityState, "entity_type": EntityType}),
}
_CHANGES: dict[str, tuple[Operation, str]] = {
    "confirm": (feedback.confirm, "confirmed"),
    "forget": (feedback.forget, "forgotten"),
    "restore": (feedback.restore, "restored"),
    "keep": (conflicts.keep, "kept"),
    "reinstate": (decisions.restore_decision, "reinstated"),
    "retire": (decisions.retire_decision, "retired"),
}


@router.get("/search")
async def search(visit: ButlerVisiting) -> Response:
    """Search a butler, best result first; this is not counted as a use."""
    fields = filled_fields(visit.visit.request)
    results = await _search_results(visit, fields) if "q" in fields else None
    return render_butler(visit, "search", results=results, modes=_MODES)


async def _search_results(visit: ButlerVisit, fields: dict[str, str]) -> Any:
    params: dict[str, Any] = {"limit": 20, **search_fields(fields)}
    if fields.get("mode", _RECALL) != _RECALL:
        return await visit.ask(retrieval.search, **operation_fields(retrieval.search, params))
    params = operation_fields(retrieval.recall, params) | {"topic": fields["q"], "counted": False}
    return await visit.ask(retrieval.recall, **params)


@router.get("/context")
async def context_form(visit: ButlerVisiting) -> Response:
    """Show the form for a prompt."""
    return _render_context(visit, None)


@router.post("/context")
async def preview_context(visit: ButlerSending) -> Response:
    """Show the context block with its budget and reasons; this is not counted as a use."""
    fields = {key: value for key, value in visit.form.items() if value.strip()}
    params = operation_fields(retrieval.preview_context, fields)
    params["trigger_prompt"] = fields.get("prompt", "")
    preview = await visit.ask(retrieval.preview_context, **params)
    return _render_context(visit, preview, asked=fields)


def _render_context(visit: ButlerVisit, preview: Any, **values: Any) -> Response:
    budget = visit.butler.memory.settings.retrieval.context_token_budget
    return render_butler(visit, "context", preview=preview, budget=budget, **values)


@router.get("/facts")
@router.get("/rules")
@router.get("/episodes")
@router.get("/entities")
async def list_page(visit: ButlerVisiting) -> Response:
    """List facts, rules, episodes or entities, newest first, with their filters."""
    request = visit.visit.request
    section = request.url.path.rpartition("/")[2]
    operation, choices = _LISTS[section]
    fields = operation_fields(operation, filled_fields(request))
    cursor = request.query_params.get("cursor", "").strip() or None
    page = await visit.ask(operation, **fields, cursor=cursor)
    rows, shown = page["items"], {"next_cursor": page["next_cursor"], "choices": choices}
    rows = pictures.with_decay(rows, visit) if section in ("facts", "rules") else rows
    return render_butler(visit, section, rows=rows, **shown)


@router.get("/bin")
async def bin(visit: ButlerVisiting) -> Response:
    """List the episodes in the bin."""
    removed = await visit.ask(upkeep.removed_episodes)
    return render_butler(visit, "episodes", template="bin.html", removed=removed)


@router.get("/{kinds}/{memory_id}")
async def memory(visit: ButlerVisiting, kinds: Kinds, memory_id: UUID) -> Response:
    """Show one memory with its explanation."""
    kind = KINDS[kinds]
    detail = await visit.ask(retrieval.explain, memory_type=kind, memory_id=memory_id)
    if detail is None:
        raise NotFound(f"{visit.butler.name} has no {kind} {memory_id}; it may have been removed")
    row = detail["memory"]
    decays = row.get("state") in ("active", "fading") and "decay_rate" in row
    decay = pictures.decay_of(row, visit) if decays else None
    return render_butler(
        visit,
        kinds,
        template=f"{kind}.html",
        detail=detail,
        memory=row,
        curve=charts.decay_curve(decay) if decay else None,
        lasts=decay is not None and decay.lasts,
        graph=pictures.provenance(visit.home, detail),
        permanences=list(Permanence),
        here=f"{visit.home}/{kinds}/{memory_id}",
    )


@router.post("/rules/{rule_id}/helpful")
async def helpful(visit: ButlerSending, rule_id: UUID) -> Response:
    """Mark a rule as helpful."""
    await visit.ask(feedback.mark_helpful, rule_id=rule_id)
    return go_to(f"{visit.home}/rules/{rule_id}?done=helpful")


@router.post("/rules/{rule_id}/harmful")
async def harmful(visit: ButlerSending, rule_id: UUID) -> Response:
    """Mark a rule as harmful, with a reason."""
    await visit.ask(feedback.mark_harmful, rule_id=rule_id, reason=visit.form.optional("reason"))
    return go_to(f"{visit.home}/rules/{rule_id}?done=harmful")


@router.post("/facts/{fact_id}/correct")
async def correct(visit: ButlerSending, fact_id: UUID) -> Response:
    """Correct a fact: a new one supersedes it."""
    fields = {key: visit.form.optional(key) for key in ("permanence", "importance")}
    fields["content"] = visit.form["content"]
    fact = await visit.ask(storage.correct, fact_id=fact_id, **fields)
    return go_to(f"{visit.home}/facts/{fact['id']}?done=corrected")


@router.post("/facts/{fact_id}/undo")
async def undo_correction(visit: ButlerSending, fact_id: UUID) -> Response:
    """Undo a correction: a new fact with the former content supersedes it."""
    fact = await visit.ask(storage.undo_correction, fact_id=fact_id)
    return go_to(f"{visit.home}/facts/{fact['id']}?done=undone")


@router.post("/episodes/{episode_id}/requeue")
async def requeue(visit: ButlerSending, episode_id: UUID) -> Response:
    """Requeue a dead letter."""
    result = await visit.ask(upkeep.requeue, episode_ids=[episode_id])
    if not result["requeued"]:
        raise Conflict("this episode is no longer a dead letter; reload it to see its state")
    return go_to(f"{visit.home}/episodes/{episode_id}?done=requeued")


# Last, because its path would match those above.
@router.post("/{kinds}/{memory_id}/{action}")
async def change(
    visit: ButlerSending,
    kinds: Kinds,
    memory_id: UUID,
    action: Literal["confirm", "forget", "restore", "keep", "reinstate", "retire"],
) -> Response:
    """Confirm, forget, restore or keep a memory; let a decision hold again, or be past."""
    operation, word = _CHANGES[action]
    named = operation_fields(operation, {"memory_type": KINDS[kinds], "memory_id": memory_id})
    result = await visit.ask(operation, **named)
    if not result[word]:
        raise Conflict(
            f"nothing was {word}: its state changed meanwhile; reload it to see its state"
        )
    return go_to(f"{visit.home}/{kinds}/{memory_id}?done={word}")
