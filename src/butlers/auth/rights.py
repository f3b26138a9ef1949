"""Who calls, and what that caller may do."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from butlers.errors import Forbidden
from butlers.kernel.secrets import admitted_key, masked


class Right(StrEnum):
    """What a token may do: call agents' hooks, read, write (with read and hook), or everything."""

    HOOK = "hook"
    READ = "read"
    WRITE = "write"
    OPERATE = "operate"


INCLUDED_RIGHTS: Mapping[Right, frozenset[Right]] = {
    Right.HOOK: frozenset({Right.HOOK}),
    Right.READ: frozenset({Right.READ}),
    Right.WRITE: frozenset({Right.HOOK, Right.READ, Right.WRITE}),
    Right.OPERATE: frozenset(Right),
}
"""What a token with a right may do."""


@dataclass(frozen=True, slots=True)
class Project:
    """The project a caller works in: its keys, the most reliable first, its name and its path."""

    keys: tuple[str, ...]
    name: str
    place: str = ""

    @classmethod
    def of(cls, value: Any) -> "Project | None":
        """Read a project as `sessions.projects` identifies one, masked; None if it is none."""
        keys = value.get("keys") if isinstance(value, dict) else None
        if not isinstance(keys, list) or not keys or not all(isinstance(k, str) for k in keys):
            return None
        name, place = (masked(str(value.get(field, ""))).text for field in ("name", "place"))
        return cls(tuple(admitted_key("mask", "project", key) for key in keys), name, place)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as the host authenticated it; a tool argument never changes it.

    `agent` is the name its token was made for, empty for a token of the whole tenant. `project` is
    the project it works in, if known. An operator is the person who runs the home. What a
    `low_trust` caller stores never outranks what others stored.
    """

    tenant_id: str
    actor: str
    agent: str = ""
    project: Project | None = None
    low_trust: bool = False
    is_operator: bool = False
    rights: Right = Right.OPERATE
    scopes: tuple[str, ...] = ()
    """The scopes it may write, and read besides global ones; empty for no limit."""
    client: str = ""
    """The name that its program gives itself, for display only."""
    may_decide: bool = False
    """Whether a person is present, or made this caller's token to decide in a person's place."""

    def require_unlimited(self, what: str) -> None:
        """Raise Forbidden if the caller's token is limited to scopes."""
        if self.scopes:
            raise Forbidden(
                f"this token is limited to {', '.join(self.scopes)}, and {what} is not; "
                "make one for everything with `butlers token new` without --scope"
            )

    def require(self, right: Right) -> None:
        """Raise Forbidden if the caller's token lacks a right."""
        if right not in INCLUDED_RIGHTS[self.rights]:
            raise Forbidden(
                f"this token may only {self.rights}, and this needs the right to {right}; "
                f"make a token with `butlers token new --rights {right}`"
            )
