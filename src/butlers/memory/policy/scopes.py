"""Scopes: `global`, a butler's name, or a project's; who is told what is of which.

What is asked from several scopes at once names them in one text. The character between them cannot
stand in a scope: to whoever stores one it is white space, which becomes a blank.
"""

from collections.abc import Iterable

from butlers.errors import Forbidden, InvalidInput
from butlers.memory.policy import inputs

GLOBAL = "global"
PROJECT = "project:"
_BETWEEN = "\x1f"
_ALL = "*"


def joined(scopes: Iterable[str]) -> str:
    """Several scopes as one text."""
    return _BETWEEN.join(dict.fromkeys(scopes))


def several(scope: str) -> list[str]:
    """Each of the scopes that a text names."""
    return scope.split(_BETWEEN)


def checked(field: str, scope: str) -> str:
    """The scopes that a text names, each of which could be one."""
    return joined(inputs.checked_line(field, one, inputs.MAX_SCOPE) for one in several(scope))


def is_project(scope: str) -> bool:
    """Whether what is of this scope belongs to a project."""
    return scope.startswith(PROJECT)


def of_source(scope: str, source: str) -> str:
    """The scope of what is drawn from a source: what is of a project stays with it."""
    return source if is_project(source) else scope


def seen_in_project(field: str, given: str | None, own: tuple[str, ...]) -> str:
    """What is seen by somebody in a project who asks for a scope; another project's is refused.

    Whoever asks for none sees every scope but those of other projects.
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
    """What is seen by a token that is limited to some scopes, asked for one or for none."""
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
    """The scope that something is stored in by a token that is limited to some."""
    if given not in limits:
        raise Forbidden(
            f"{field}: found {given!r:.80}; this token is limited to {', '.join(limits)} and "
            "stores nowhere else"
        )
    return given
