"""Ask every butler that a caller may see at once: local ones directly, remote ones over HTTP.

A butler that does not answer in time is shown as down; the results of the others are complete.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import httpx2
import structlog
from pydantic import BaseModel, ValidationError

from butlers.errors import ButlersError, Unavailable
from butlers.interfaces.http.access import ButlerAccess, Visitor, access_butler
from butlers.interfaces.http.app_state import AppState
from butlers.settings.sections import RemoteButler

log = structlog.get_logger(__name__)
MAX_ANSWER_BYTES = 8 * 1024 * 1024
ANSWER_SECONDS = 2.0
"""How long one butler may take before it is shown as down."""

Result = TypeVar("Result", bound=BaseModel)
Params = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FleetQuery(Generic[Result]):
    """A question for every butler: a call for local ones, a path below `memory` for remote ones."""

    model: type[Result]
    here: Callable[[ButlerAccess], Awaitable[Any]]
    path: str
    params: Params


@dataclass(frozen=True, slots=True)
class Reply(Generic[Result]):
    """The result of one butler, or why there is none."""

    name: str
    result: Result | None
    error: str | None = None
    is_remote: bool = False


class Fleet:
    """The butlers of this home, and the remote ones that its settings name."""

    def __init__(self, app_state: AppState) -> None:
        self._app_state = app_state
        self._client: httpx2.AsyncClient | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Connect to remote butlers for the block."""
        client = httpx2.AsyncClient(trust_env=False, timeout=None, follow_redirects=False)
        async with client as self._client:
            yield

    def here(self, visitor: Visitor) -> list[str]:
        """List the butlers of this home that a caller may see, by name."""
        home = self._app_state
        return sorted(visitor.tenants.keys() & (home.butlers.keys() | home.failed.keys()))

    def there(self, visitor: Visitor) -> list[RemoteButler]:
        """List the remote butlers that a caller may see, by name."""
        remotes = (r for r in self._app_state.fleet.remotes if r.name in visitor.remotes)
        return sorted(remotes, key=lambda remote: remote.name)

    async def ask(
        self, visitor: Visitor, request_id: str, query: FleetQuery[Result]
    ) -> list[Reply[Result]]:
        """Ask every butler at once, each within its time; local ones first."""

        async def ask_here(name: str) -> Result:
            access = access_butler(self._app_state, visitor, name, request_id)
            return query.model.model_validate(await query.here(access), from_attributes=True)

        async def ask_there(remote: RemoteButler) -> Result:
            body = await self._fetch(remote, request_id, query.path, query.params)
            return query.model.model_validate_json(body)

        replies = await asyncio.gather(
            *(_reply(name, ask_here(name), is_remote=False) for name in self.here(visitor)),
            *(_reply(r.name, ask_there(r), is_remote=True) for r in self.there(visitor)),
        )
        return list(replies)

    async def _fetch(
        self, remote: RemoteButler, request_id: str, path: str, params: Params
    ) -> bytes:
        token = os.environ.get(remote.token_env)
        if not token:
            raise Unavailable(f"set the environment variable {remote.token_env} to its token")
        if self._client is None:
            raise Unavailable("remote butlers answer only while this process serves")
        headers = {"Authorization": f"Bearer {token}", "X-Request-Id": request_id}
        url = f"{remote.url}/memory/{path}"
        request = self._client.stream("GET", url, params=dict(params), headers=headers)
        async with request as response:
            if response.status_code != 200:
                raise Unavailable(f"answered with status {response.status_code}")
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MAX_ANSWER_BYTES:
                    raise Unavailable(f"answered with more than {MAX_ANSWER_BYTES} bytes")
            return bytes(body)


async def _reply(name: str, work: Awaitable[Result], *, is_remote: bool) -> Reply[Result]:
    """Wait for the result of one butler; a failure becomes the reason in its reply."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return Reply(name, await work, is_remote=is_remote)
    except TimeoutError:
        error = f"no answer within {ANSWER_SECONDS:g} seconds"
    except httpx2.HTTPError as failed:
        error = f"cannot be reached ({type(failed).__name__})"
    except ValidationError:
        error = "did not answer like a butler; check its URL in the settings"
    except ButlersError as failed:
        error = str(failed)
    except Exception as failed:  # noqa: BLE001  the results of the others stay complete
        log.exception("a butler could not be asked", butler=name)
        error = f"failed ({type(failed).__name__}); `butlers logs` shows more"
    return Reply(name, None, error, is_remote)
