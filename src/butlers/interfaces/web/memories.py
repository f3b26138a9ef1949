"""Pages of facts, rules and episodes: lists, details, search, context preview and the bin."""

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import Response

from butlers.errors import Conflict, NotFound
from butlers.interfaces.web import charts, pictures
from butlers.interfaces.web.pages import PageRoute, go_to, render_butler
from butlers.interfaces.web.visits import (
    Name,
    Sending,
    Visit,
    Visiting,
    filled_fields,
    operation_fields,
    search_fields,
)
from butlers.memory.model import ConsolidationStatus, Maturity, MemoryType, Permanence, SearchMode
from butlers.memory.operations import (
    conflicts,
    feedback,
    listing,
    retrieval,
    storage,
    upkeep,
)
from butlers.memory.policy.states import EpisodeState, FactState, RuleUse
from butlers.operation import Operation

router = APIRouter(route_class=PageRoute)
Kinds = Literal["facts", "rules", "episodes"]
KINDS = {"facts": MemoryType.FACT, "rules": MemoryType.RULE, "episodes": MemoryType.EPISODE}
_PATH = "/butlers/{name}/memory"
_RECALL = "recall"
_MODES = {
    _RECALL: "recall",
    SearchMode.HYBRID: "both",
    SearchMode.SEMANTIC: "meaning",
    SearchMode.KEYWORD: "words",
}
_CHANGES: dict[str, tuple[Operation, str]] = {
    "confirm": (feedback.confirm, "confirmed"),
    "forget": (feedback.forget, "forgotten"),
    "restore": (feedback.restore, "restored"),
    "keep": (conflicts.keep, "kept"),
}


@router.get(_PATH + "/search")
async def search(visit: Visiting, name: Name) -> Response:
    """Search a butler, best result first; this is not counted as a use."""
    fields = filled_fields(visit.request)
    found = await _search_results(visit, name, fields) if "q" in fields else None
    return render_butler(
        visit,
        name,
        "search",
        found=found,
        asked=fields,
        modes=_MODES,
        types=list(MemoryType),
    )


async def _search_results(visit: Visit, name: str, fields: dict[str, str]) -> Any:
    access, asked = visit.access(name), {"limit": 20, **search_fields(fields)}
    if fields.get("mode", _RECALL) != _RECALL:
        return await access.ask(retrieval.search, **operation_fields(retrieval.search, asked))
    asked = operation_fields(retrieval.recall, asked) | {"topic": fields["q"], "counted": False}
    return await access.ask(retrieval.recall, **asked)


@router.get(_PATH + "/context")
async def ask_context(visit: Visiting, name: Name) -> Response:
    """Show the form for a prompt."""
    return _context(visit, name, {}, None)


@router.post(_PATH + "/context")
async def preview_context(sent: Sending, name: Name) -> Response:
    """Show the context block with its budget and reasons; this is not counted as a use."""
    fields = {key: value for key, value in sent.form.fields.items() if value.strip()}
    asked = operation_fields(retrieval.preview_context, fields) | {
        "trigger_prompt": fields.get("prompt", "")
    }
    preview = await sent.visit.access(name).ask(retrieval.preview_context, **asked)
    return _context(sent.visit, name, fields, preview)


def _context(visit: Visit, name: str, asked: dict[str, str], preview: Any) -> Response:
    return render_butler(
        visit,
        name,
        "context",
        asked=asked,
        preview=preview,
        budget=visit.access(name).butler.memory.settings.retrieval.context_token_budget,
    )


@router.get(_PATH + "/facts")
async def facts(visit: Visiting, name: Name) -> Response:
    """List facts, newest first."""
    words = {"states": list(FactState), "permanences": list(Permanence)}
    page = await listed_page(visit, name, listing.list_facts)
    shown = pictures.with_decay(page["items"], visit.access(name))
    return render_list(visit, name, "facts", page, {"facts": shown, **words})


@router.get(_PATH + "/rules")
async def rules(visit: Visiting, name: Name) -> Response:
    """List rules, newest first, with anti-patterns in a section of their own."""
    page = await listed_page(visit, name, listing.list_rules)
    shown = pictures.with_decay(page["items"], visit.access(name))
    apart = {
        "rules": [rule for rule in shown if rule["maturity"] != Maturity.ANTI_PATTERN],
        "warnings": [rule for rule in shown if rule["maturity"] == Maturity.ANTI_PATTERN],
    }
    words = {"states": list(RuleUse), "maturities": list(Maturity)}
    return render_list(visit, name, "rules", page, {**apart, **words})


@router.get(_PATH + "/episodes")
async def episodes(visit: Visiting, name: Name) -> Response:
    """List episodes, newest first, with their consolidation status."""
    page = await listed_page(visit, name, listing.list_episodes)
    words = {"states": list(EpisodeState), "statuses": list(ConsolidationStatus)}
    return render_list(visit, name, "episodes", page, {"episodes": page["items"], **words})


@router.get(_PATH + "/bin")
async def bin(visit: Visiting, name: Name) -> Response:
    """List the episodes in the bin."""
    removed = await visit.access(name).ask(upkeep.removed_episodes)
    return render_butler(visit, name, "episodes", template="bin.html", removed=removed)


async def listed_page(visit: Visit, name: str, operation: Operation) -> Any:
    """Load the page of a list that the address names."""
    return await visit.access(name).ask(
        operation, **operation_fields(operation, filled_fields(visit.request))
    )


def render_list(
    visit: Visit, name: str, section: str, page: Any, values: dict[str, Any]
) -> Response:
    """Render a page of a list, with its filters and a link to the next page."""
    return render_butler(
        visit,
        name,
        section,
        **values,
        asked=filled_fields(visit.request, without=("cursor",)),
        cursor=visit.request.query_params.get("cursor"),
        next_cursor=page["next_cursor"],
    )


@router.get(_PATH + "/{kinds}/{memory_id}")
async def one(
    visit: Visiting,
    name: Name,
    kinds: Kinds,
    memory_id: UUID,
    done: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    """Show one memory with its explanation."""
    access, kind = visit.access(name), KINDS[kinds]
    detail = await access.ask(retrieval.explain, memory_type=kind, memory_id=memory_id)
    if detail is None:
        raise NotFound(f"{name} has no {kind} {memory_id}; it may have been removed")
    found = detail["memory"]
    wanes = found.get("state") in ("active", "fading") and "decay_rate" in found
    decay = pictures.decay_of(found, access) if wanes else None
    return render_butler(
        visit,
        name,
        kinds,
        template=f"{kind}.html",
        detail=detail,
        memory=found,
        curve=charts.decay_curve(decay) if decay else None,
        lasts=decay is not None and decay.lasts,
        graph=pictures.provenance(name, detail),
        permanences=list(Permanence),
        here=f"/butlers/{name}/memory/{kinds}/{memory_id}",
        done=done,
    )


@router.post(_PATH + "/rules/{rule_id}/helpful")
async def helpful(sent: Sending, name: Name, rule_id: UUID) -> Response:
    """Mark a rule as helpful."""
    await sent.visit.access(name).ask(feedback.mark_helpful, rule_id=rule_id)
    return _memory_link(name, "rules", rule_id, "helpful")


@router.post(_PATH + "/rules/{rule_id}/harmful")
async def harmful(sent: Sending, name: Name, rule_id: UUID) -> Response:
    """Mark a rule as harmful, with a reason."""
    reason = sent.form.optional("reason")
    await sent.visit.access(name).ask(feedback.mark_harmful, rule_id=rule_id, reason=reason)
    return _memory_link(name, "rules", rule_id, "harmful")


@router.post(_PATH + "/facts/{fact_id}/correct")
async def correct(sent: Sending, name: Name, fact_id: UUID) -> Response:
    """Correct a fact: a new one supersedes it."""
    fields = {key: sent.form.optional(key) for key in ("permanence", "importance")}
    stored = await sent.visit.access(name).ask(
        storage.correct, fact_id=fact_id, content=sent.form["content"], **fields
    )
    return _memory_link(name, "facts", stored["id"], "corrected")


@router.post(_PATH + "/facts/{fact_id}/undo")
async def undo_correction(sent: Sending, name: Name, fact_id: UUID) -> Response:
    """Undo a correction: a new fact with the former content supersedes it."""
    stored = await sent.visit.access(name).ask(storage.undo_correction, fact_id=fact_id)
    return _memory_link(name, "facts", stored["id"], "undone")


@router.post(_PATH + "/episodes/{episode_id}/requeue")
async def try_again(sent: Sending, name: Name, episode_id: UUID) -> Response:
    """Requeue a dead letter."""
    told = await sent.visit.access(name).ask(upkeep.requeue, episode_ids=[episode_id])
    if not told["requeued"]:
        raise Conflict("this episode is no longer a dead letter; reload it to see its state")
    return _memory_link(name, "episodes", episode_id, "requeued")


# Last, because its path would match those above.
@router.post(_PATH + "/{kinds}/{memory_id}/{action}")
async def change(
    sent: Sending,
    name: Name,
    kinds: Kinds,
    memory_id: UUID,
    action: Literal["confirm", "forget", "restore", "keep"],
) -> Response:
    """Confirm, forget, restore or keep a memory."""
    operation, word = _CHANGES[action]
    told = await sent.visit.access(name).ask(
        operation, memory_type=KINDS[kinds], memory_id=memory_id
    )
    if not told[word]:
        raise Conflict(
            f"nothing was {word}: its state changed meanwhile; reload it to see its state"
        )
    return _memory_link(name, kinds, memory_id, word)


def _memory_link(name: str, kinds: str, memory_id: UUID | str, word: str) -> Response:
    return go_to(f"/butlers/{name}/memory/{kinds}/{memory_id}?done={word}")
