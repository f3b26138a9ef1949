"""Scopes: `global`, a butler's name, or a project's; and which of them a caller may use.

A text may name several scopes, joined by a character that no stored scope contains.
"""

from collections.abc import Iterable

from butlers.errors import Forbidden, InvalidInput
from butlers.memory.policy import inputs

GLOBAL = "global"
PROJECT = "project:"
_BETWEEN = "\x1f"
_ALL = "*"


def joined(scopes: Iterable[str]) -> str:
    """Join scopes into one text."""
    return _BETWEEN.join(dict.fromkeys(scopes))


def several(scope: str) -> list[str]:
    """Split a text into the scopes it names."""
    return scope.split(_BETWEEN)


def checked(field: str, scope: str) -> str:
    """Check each of the scopes that a text names."""
    return joined(inputs.checked_line(field, name, inputs.MAX_SCOPE) for name in several(scope))


def is_project(scope: str) -> bool:
    """Whether a scope is a project's."""
    return scope.startswith(PROJECT)


def of_source(scope: str, source: str) -> str:
    """Return the scope of what is drawn from a source: a project's stays in the project."""
    return source if is_project(source) else scope


def seen_in_project(field: str, given: str | None, own: tuple[str, ...]) -> str:
    """Return the scopes a caller in a project sees, for the scope given; refuse other projects'.

    Without a scope: every scope but those of other projects.
    """
    if given is None:
        return joined((_ALL, *own))
    scope = inputs.checked_line(field, given, inputs.MAX_SCOPE)
    if is_project(scope) and scope not in own:
        raise InvalidInput(
            f"{field}: found {scope!r:.80}; valid are global, a butler's name and {', '.join(own)}"
        )
    return joined((scope, *own))


def seen_within(field: str, given: str | None, limits: tuple[str, ...]) -> str:
    """Return the scopes that a limited token sees, for the scope given or all of its own."""
    known = dict.fromkeys((GLOBAL, *limits))
    if given is None:
        return joined(limits) or GLOBAL
    if given not in known:
        raise InvalidInput(
            f"{field}: found {given!r:.80}; valid are those this token is limited to: "
            f"{', '.join(known)}"
        )
    return given


def stored_within(field: str, given: str, limits: tuple[str, ...]) -> str:
    """Return the scope to store in; refuse one outside a token's limits."""
    if given not in limits:
        raise Forbidden(
            f"{field}: found {given!r:.80}; this token is limited to {', '.join(limits)} and "
            "stores nowhere else"
        )
    return given
