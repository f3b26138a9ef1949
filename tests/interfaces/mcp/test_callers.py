"""Who may call which tool, decided before any module is asked."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from butlers.auth.rights import Caller
from butlers.interfaces.mcp.butler_mcp import SCOPE, ButlerMCP
from butlers.module import ButlerEnvironment
from butlers.operation import Audience, Input, Operation, Output, Toolset
from host.toy_modules import Toy

asked_by: list[str] = []


async def audit(ctx: Caller, params: Input) -> dict[str, Any]:
    """Look at what every tenant has. Returns who asked."""
    asked_by.append(ctx.tenant_id)
    return {"asked_by": ctx.tenant_id}


class House(Toy):
    """A module with something that concerns every tenant."""

    name = "house"

    @property
    def operations(self) -> Sequence[Operation]:  # type: ignore[override]
        return [
            Operation(
                run=audit,
                output=Output,
                example="audit",
                tool="audit",
                command="audit",
                callers=Audience.OWNER,
            )
        ]

    def operation_context(self, caller: Caller, request_id: str | None = None) -> Caller:
        return caller


@contextmanager
def signed_in(tenant: str) -> Iterator[None]:
    claims = {"caller": Caller(tenant, "token:1")}
    token = AccessToken(token="redacted", client_id=tenant, scopes=[SCOPE], claims=claims)
    before = auth_context_var.set(AuthenticatedUser(token))
    try:
        yield
    finally:
        auth_context_var.reset(before)


async def test_what_concerns_every_tenant_is_for_the_butlers_own_alone() -> None:
    asked_by.clear()
    server = ButlerMCP(
        "general", [House(ButlerEnvironment("general", "ours"))], toolset=Toolset.ALL
    )
    with signed_in("ours"):
        answer: Any = await server.call_tool("audit", {})
    assert answer.structured_content == {"asked_by": "ours"}
    with signed_in("theirs"):
        refused: Any = await server.call_tool("audit", {})
    assert refused.is_error
    assert refused.content[0].text.startswith("audit is for the butler's own tenant")
    assert asked_by == ["ours"]
