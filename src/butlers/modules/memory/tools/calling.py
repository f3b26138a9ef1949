"""What every tool does first and last: who is asking, in which request, and the answer's shape."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from butlers.errors import InvalidInput
from butlers.kernel.text import one_line
from butlers.module import Surroundings, current_caller
from butlers.modules.memory.memory import Memory
from butlers.modules.memory.model import Lineage

MAX_REQUEST_ID = 200

RequestContext = Annotated[
    dict[str, Any] | None,
    Field(description='Optional lineage, e.g. {"request_id": "…"}; kept with every event.'),
]


@dataclass(frozen=True, slots=True)
class Desk:
    """Where tools are served: the memory they act on and who is asking."""

    memory: Callable[[], Memory]
    surroundings: Surroundings

    def lineage(self, request_context: dict[str, Any] | None) -> Lineage:
        """On whose behalf a call acts; the tenant comes from the caller alone."""
        caller = current_caller(self.surroundings)
        return Lineage(caller.tenant_id, caller.actor, request_id(request_context))

    def refuse_other_tenant(self, tenant_id: str | None) -> None:
        """A tenant named in an argument must be the caller's own."""
        own = current_caller(self.surroundings).tenant_id
        if tenant_id is not None and tenant_id != own:
            raise InvalidInput(
                f"tenant_id: found {tenant_id[:80]!r}; valid is your own tenant, {own!r}, "
                "which is also what leaving it out means"
            )


def request_id(request_context: dict[str, Any] | None) -> str | None:
    """The request's id, if the caller gave one."""
    given = (request_context or {}).get("request_id")
    if given is None:
        return None
    if not isinstance(given, str) or not 1 <= len(given) <= MAX_REQUEST_ID:
        raise InvalidInput(
            f"request_context.request_id: found {str(given)[:80]!r}; "
            f"valid is a text of 1 to {MAX_REQUEST_ID} characters"
        )
    return one_line(given)


def traced(answer: dict[str, Any], lineage: Lineage) -> dict[str, Any]:
    """The answer, naming the request it belongs to when there is one."""
    return {**answer, "request_id": lineage.request_id} if lineage.request_id else answer
