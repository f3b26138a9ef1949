"""Facts, rules and episodes: by filter a page at a time, one of them whole, and found."""

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import Response

from butlers.errors import Conflict, NotFound
from butlers.interfaces.web import charts, pictures
from butlers.interfaces.web.fields import filled_fields, operation_fields, searched
from butlers.interfaces.web.rendering import render, seated
from butlers.interfaces.web.routing import PageRoute, go_to
from butlers.interfaces.web.visits import Name, Sending, Visit, Visiting
from butlers.memory.flows.browse import MAX_LIMIT
from butlers.memory.model import ConsolidationStatus, Maturity, MemoryType, Permanence, SearchMode
from butlers.memory.operations import (
    conflicts,
    consolidation,
    feedback,
    listing,
    retrieval,
    storage,
    trust,
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
    """What is found, best first; looking is not counted as a use."""
    fields = filled_fields(visit.request)
    found = await _search_results(visit, name, fields) if "q" in fields else None
    return render(
        visit.request,
        "search.html",
        **seated(visit, name, "search"),
        found=found,
        asked=fields,
        modes=_MODES,
        types=list(MemoryType),
    )


async def _search_results(visit: Visit, name: str, fields: dict[str, str]) -> Any:
    access, asked = visit.access(name), {"limit": 20, **searched(fields)}
    if fields.get("mode", _RECALL) != _RECALL:
        return await access.ask(retrieval.search, **operation_fields(retrieval.search, asked))
    asked = operation_fields(retrieval.recall, asked) | {"topic": fields["q"], "counted": False}
    return await access.ask(retrieval.recall, **asked)


@router.get(_PATH + "/context")
async def ask_context(visit: Visiting, name: Name) -> Response:
    """The form for a prompt."""
    return _context(visit, name, {}, None)


@router.post(_PATH + "/context")
async def preview_context(sent: Sending, name: Name) -> Response:
    """The block, its budget and its reasons; nothing is counted as a use."""
    fields = {key: value for key, value in sent.form.fields.items() if value.strip()}
    asked = operation_fields(retrieval.preview_context, fields) | {
        "trigger_prompt": fields.get("prompt", "")
    }
    preview = await sent.visit.access(name).ask(retrieval.preview_context, **asked)
    return _context(sent.visit, name, fields, preview)


def _context(visit: Visit, name: str, asked: dict[str, str], preview: Any) -> Response:
    return render(
        visit.request,
        "context.html",
        **seated(visit, name, "context"),
        asked=asked,
        preview=preview,
        budget=visit.access(name).butler.memory.settings.retrieval.context_token_budget,
    )


@router.get(_PATH + "/facts")
async def facts(visit: Visiting, name: Name) -> Response:
    """Facts, newest first."""
    words = {"states": list(FactState), "permanences": list(Permanence)}
    page = await listed_page(visit, name, listing.list_facts)
    shown = pictures.with_decay(page["items"], visit.access(name))
    return render_list(visit, name, "facts", page, {"facts": shown, **words})


@router.get(_PATH + "/rules")
async def rules(visit: Visiting, name: Name) -> Response:
    """Rules, newest first; the warnings among them stand apart."""
    page = await listed_page(visit, name, listing.list_rules)
    shown = pictures.with_decay(page["items"], visit.access(name))
    apart = {
        "rules": [one for one in shown if one["maturity"] != Maturity.ANTI_PATTERN],
        "warnings": [one for one in shown if one["maturity"] == Maturity.ANTI_PATTERN],
    }
    words = {"states": list(RuleUse), "maturities": list(Maturity)}
    return render_list(visit, name, "rules", page, {**apart, **words})


@router.get(_PATH + "/episodes")
async def episodes(visit: Visiting, name: Name) -> Response:
    """Episodes, newest first, each with where it stands on its way to knowledge."""
    page = await listed_page(visit, name, listing.list_episodes)
    words = {"states": list(EpisodeState), "statuses": list(ConsolidationStatus)}
    return render_list(visit, name, "episodes", page, {"episodes": page["items"], **words})


_VERDICTS: dict[str, Operation] = {
    "accept": trust.accept_quarantined,
    "reject": trust.reject_quarantined,
}
_ANSWERS: dict[str, Operation] = {
    "accept": consolidation.accept_proposal,
    "decline": consolidation.decline_proposal,
}


@router.get(_PATH + "/review")
async def review(visit: Visiting, name: Name) -> Response:
    """What waits for a person: conflicts, proposals, and to whoever runs the home, quarantine."""
    access = visit.access(name)
    held = await access.ask(trust.list_quarantine) if access.is_operator else None
    proposed = await access.ask(consolidation.list_proposals)
    doubted = await access.ask(conflicts.list_doubts)
    page = await access.ask(conflicts.list_conflicts, limit=MAX_LIMIT)
    shown = {"held": held, "proposed": proposed, "doubted": doubted, "conflicts": page["items"]}
    return render(visit.request, "review.html", **seated(visit, name, "review"), **shown)


@router.post(_PATH + "/quarantine/{memory_id}/{verdict}")
async def judge(
    sent: Sending, name: Name, memory_id: UUID, verdict: Literal["accept", "reject"]
) -> Response:
    """Let a memory out of quarantine, or forget it."""
    await sent.visit.access(name).ask(_VERDICTS[verdict], memory_id=str(memory_id))
    return go_to(f"/butlers/{name}/memory/review")


@router.post(_PATH + "/proposals/{proposal_id}/{verdict}")
async def decide(
    sent: Sending, name: Name, proposal_id: UUID, verdict: Literal["accept", "decline"]
) -> Response:
    """Do what was proposed, or decline it."""
    await sent.visit.access(name).ask(_ANSWERS[verdict], proposal_id=str(proposal_id))
    return go_to(f"/butlers/{name}/memory/review")


@router.post(_PATH + "/conflicts/{conflict_id}")
async def settle(sent: Sending, name: Name, conflict_id: UUID) -> Response:
    """Say which of two facts holds, that both do, or since when the newer does."""
    said = {"holds": sent.form["holds"], "since": sent.form.optional("since")}
    await sent.visit.access(name).ask(
        conflicts.settle_conflict, conflict_id=str(conflict_id), **said
    )
    return go_to(f"/butlers/{name}/memory/review")


@router.get(_PATH + "/bin")
async def bin(visit: Visiting, name: Name) -> Response:
    """What a cleanup removed and can still be had back."""
    removed = await visit.access(name).ask(upkeep.removed_episodes)
    return render(visit.request, "bin.html", **seated(visit, name, "episodes"), removed=removed)


async def listed_page(visit: Visit, name: str, operation: Operation) -> Any:
    """The page of a listing that the address asks for."""
    return await visit.access(name).ask(
        operation, **operation_fields(operation, filled_fields(visit.request))
    )


def render_list(
    visit: Visit, name: str, section: str, page: Any, values: dict[str, Any]
) -> Response:
    """A page of a listing, with what was asked for and where it goes on."""
    return render(
        visit.request,
        f"{section}.html",
        **seated(visit, name, section),
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
    """A memory with all that explains it."""
    access, kind = visit.access(name), KINDS[kinds]
    detail = await access.ask(retrieval.explain, memory_type=kind, memory_id=memory_id)
    if detail is None:
        raise NotFound(f"{name} has no {kind} {memory_id}; it may have been removed")
    found = detail["memory"]
    wanes = found.get("state") in ("active", "fading") and "decay_rate" in found
    decay = pictures.decay_of(found, access) if wanes else None
    return render(
        visit.request,
        f"{kind}.html",
        **seated(visit, name, kinds),
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
    """Say that following a rule helped."""
    await sent.visit.access(name).ask(feedback.mark_helpful, rule_id=rule_id)
    return _memory_link(name, "rules", rule_id, "helpful")


@router.post(_PATH + "/rules/{rule_id}/harmful")
async def harmful(sent: Sending, name: Name, rule_id: UUID) -> Response:
    """Say that following a rule did harm, and why."""
    reason = sent.form.optional("reason")
    await sent.visit.access(name).ask(feedback.mark_harmful, rule_id=rule_id, reason=reason)
    return _memory_link(name, "rules", rule_id, "harmful")


@router.post(_PATH + "/facts/{fact_id}/correct")
async def correct(sent: Sending, name: Name, fact_id: UUID) -> Response:
    """Put a fact right: a new one takes its place."""
    fields = {key: sent.form.optional(key) for key in ("permanence", "importance")}
    stored = await sent.visit.access(name).ask(
        storage.correct, fact_id=fact_id, content=sent.form["content"], **fields
    )
    return _memory_link(name, "facts", stored["id"], "corrected")


@router.post(_PATH + "/facts/{fact_id}/undo")
async def undo_correction(sent: Sending, name: Name, fact_id: UUID) -> Response:
    """Let a fact say again what the one it replaced said; both stay readable."""
    stored = await sent.visit.access(name).ask(storage.undo_correction, fact_id=fact_id)
    return _memory_link(name, "facts", stored["id"], "undone")


@router.post(_PATH + "/episodes/{episode_id}/requeue")
async def try_again(sent: Sending, name: Name, episode_id: UUID) -> Response:
    """Give a dead letter another chance."""
    told = await sent.visit.access(name).ask(upkeep.requeue, episode_ids=[episode_id])
    if not told["requeued"]:
        raise Conflict("this episode is no dead letter any more; open it again to see how it is")
    return _memory_link(name, "episodes", episode_id, "requeued")


# After the actions of single kinds: its path would match theirs.
@router.post(_PATH + "/{kinds}/{memory_id}/{action}")
async def change(
    sent: Sending,
    name: Name,
    kinds: Kinds,
    memory_id: UUID,
    action: Literal["confirm", "forget", "restore", "keep"],
) -> Response:
    """Confirm a memory, forget it, take that back, or keep it in spite of a doubt."""
    operation, word = _CHANGES[action]
    told = await sent.visit.access(name).ask(
        operation, memory_type=KINDS[kinds], memory_id=memory_id
    )
    if not told[word]:
        raise Conflict(
            f"nothing was {word}: meanwhile its state changed; open it again to see how it is"
        )
    return _memory_link(name, kinds, memory_id, word)


def _memory_link(name: str, kinds: str, memory_id: UUID | str, word: str) -> Response:
    return go_to(f"/butlers/{name}/memory/{kinds}/{memory_id}?done={word}")
