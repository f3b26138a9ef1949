"""Templates: every value escaped, every text made visible, every instant told in words."""

from datetime import datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from butlers import __version__
from butlers.clock import utc_now
from butlers.interfaces.web import phrases, presented
from butlers.interfaces.web.svg import meter, swatch
from butlers.interfaces.web.visits import Visit, home_of, visit_or_none


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page; what every page shows is added."""
    visit = visit_or_none(request)
    about = {
        "visit": visit,
        "csrf": visit.session.csrf if visit else "",
        "butlers": visit.butlers if visit else [],
        "path": request.url.path,
        "version": __version__,
    }
    page = _environment.get_template(template).render(about | values)
    return HTMLResponse(page, status)


def seated(visit: Visit, name: str, section: str) -> dict[str, Any]:
    """What every page of one butler shows around its own part."""
    access = visit.access(name)
    return {
        "name": name,
        "home": home_of(name),
        "section": section,
        "tenant": access.caller.tenant_id,
        "may_run_jobs": access.may_run_jobs,
    }


def _when(value: datetime | str | None, otherwise: str = "never") -> Markup:
    """An instant as it is and, to whoever points at it, how long ago that was."""
    at = presented.instant(value)
    if at is None:
        return Markup.escape(otherwise)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(), presented.distance(at, utc_now()), f"{at:%Y-%m-%d %H:%M}"
    )


def _ago(value: datetime | str | None, otherwise: str = "never") -> Markup:
    """How long ago something was and, to whoever points at it, when exactly."""
    at = presented.instant(value)
    if at is None:
        return Markup.escape(otherwise)
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S}", presented.distance(at, utc_now())
    )


def _decimal(value: float | None, places: int = 2) -> str:
    return "–" if value is None else f"{value:.{places}f}"


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _words(value: str) -> str:
    return value.replace("_", " ")


_environment = Environment(
    loader=PackageLoader("butlers.interfaces.web"),
    autoescape=True,
    auto_reload=False,
    undefined=StrictUndefined,
    finalize=presented.finalized,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters |= {
    "when": _when,
    "ago": _ago,
    "decimal": _decimal,
    "count": _count,
    "words": _words,
    "cut": presented.cut,
    "span": presented.span_of,
    "query": phrases.query,
    "event": phrases.event_words,
    "changes": phrases.changes,
    "actor": phrases.actor_words,
}
_environment.globals |= {"meter": meter, "swatch": swatch}
