"""The templates of pages and of drawings, with the filters they use."""

from datetime import datetime
from functools import partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from butlers.clock import utc_now
from butlers.interfaces.web import formatting
from butlers.memory.model import MemoryType, SearchMode


def _time(value: datetime | str | None, otherwise: str = "never", *, is_relative: bool) -> Markup:
    """Show when, or how long ago, something was; the tooltip says the other."""
    at = formatting.instant(value)
    if at is None:
        return Markup.escape(otherwise)
    text, title = f"{at:%Y-%m-%d %H:%M}", formatting.distance(at, utc_now())
    if is_relative:
        text, title = title, f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at.isoformat(), title, text)


environment = Environment(
    loader=PackageLoader("butlers.interfaces.web"),
    autoescape=True,
    auto_reload=False,
    undefined=StrictUndefined,
    finalize=formatting.finalized,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.filters |= {
    "when": partial(_time, is_relative=False),
    "ago": partial(_time, is_relative=True),
    "decimal": lambda number, places=2: "–" if number is None else f"{number:.{places}f}",
    "short": formatting.short_number,
    "count": lambda number: "–" if number is None else f"{number:,}",
    "words": lambda name: name.replace("_", " "),
    "cut": formatting.cut,
    "span": formatting.span_of,
    "query": formatting.query,
    "event": formatting.event_words,
    "changes": formatting.changes,
    "actor": formatting.actor_words,
}
drawings: Any = environment.get_template("drawings.html").module
"""The macros that draw; autoescaping covers their texts and attributes."""
environment.globals |= {
    "meter": drawings.meter,
    "swatch": drawings.swatch,
    "modes": list(SearchMode),
    "types": list(MemoryType),
}
