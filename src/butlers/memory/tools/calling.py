"""What every tool does first: who is asking, and in which request."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from butlers.errors import InvalidInput
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage
from butlers.memory.tools.parameters import OwnTenant
from butlers.module import Surroundings, current_caller, request_id


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
        if tenant_id is None or isinstance(tenant_id, OwnTenant) or tenant_id == own:
            return
        raise InvalidInput(
            f"tenant_id: found {tenant_id[:80]!r}; valid is your own tenant, {own!r}, and no other"
        )
