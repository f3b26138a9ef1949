"""Facts, rules and episodes by filter, a page at a time."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from butlers.doors.http import asking
from butlers.doors.pages import pictures
from butlers.doors.pages.asked import given, read
from butlers.doors.pages.rendering import render, seated
from butlers.doors.pages.routing import PageRoute
from butlers.doors.pages.visits import Name, Visit, Visiting
from butlers.memory.flows import browse
from butlers.memory.flows.browse import Page
from butlers.memory.model import ConsolidationStatus, Maturity, Permanence
from butlers.memory.policy.states import EpisodeState, FactState, RuleUse

router = APIRouter(route_class=PageRoute)


@router.get("/butlers/{name}/memory/facts")
async def facts(visit: Visiting, name: Name) -> Response:
    """Facts, newest first."""
    seat, asked = visit.seat(name), read(asking.AskedFacts, given(visit.request))
    where = browse.FactFilter(**_filters(asked))
    page = await browse.browse_facts(seat.memory, where, asked.wanted(), seat.lineage)
    words = {"states": list(FactState), "permanences": list(Permanence)}
    shown = pictures.with_decay(page.items, seat.memory)
    return _listed(visit, name, "facts", page, {"facts": shown, **words})


@router.get("/butlers/{name}/memory/rules")
async def rules(visit: Visiting, name: Name) -> Response:
    """Rules, newest first; the warnings among them stand apart."""
    seat, asked = visit.seat(name), read(asking.AskedRules, given(visit.request))
    where = browse.RuleFilter(**_filters(asked))
    page = await browse.browse_rules(seat.memory, where, asked.wanted(), seat.lineage)
    shown = pictures.with_decay(page.items, seat.memory)
    apart = {
        "rules": [one for one in shown if one["maturity"] != Maturity.ANTI_PATTERN],
        "warnings": [one for one in shown if one["maturity"] == Maturity.ANTI_PATTERN],
    }
    words = {"states": list(RuleUse), "maturities": list(Maturity)}
    return _listed(visit, name, "rules", page, {**apart, **words})


@router.get("/butlers/{name}/memory/episodes")
async def episodes(visit: Visiting, name: Name) -> Response:
    """Episodes, newest first, each with where it stands on its way to knowledge."""
    seat, asked = visit.seat(name), read(asking.AskedEpisodes, given(visit.request))
    where = browse.EpisodeFilter(**_filters(asked))
    page = await browse.browse_episodes(seat.memory, where, asked.wanted(), seat.lineage)
    words = {"states": list(EpisodeState), "statuses": list(ConsolidationStatus)}
    return _listed(visit, name, "episodes", page, {"episodes": page.items, **words})


def _listed(visit: Visit, name: str, section: str, page: Page, values: dict[str, Any]) -> Response:
    return render(
        visit.request,
        f"{section}.html",
        **seated(visit, name, section),
        **values,
        asked=given(visit.request, without=("cursor",)),
        cursor=visit.request.query_params.get("cursor"),
        next_cursor=page.next_cursor,
    )


def _filters(asked: asking.Paged) -> dict[str, Any]:
    return asked.model_dump(exclude=set(asking.Paged.model_fields))
