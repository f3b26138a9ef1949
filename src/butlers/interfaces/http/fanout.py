"""Asking every butler a caller may see at once, each within its time.

Butlers of this process are asked directly, others over HTTP. One that does not answer is shown
as down; it neither delays nor spoils what the rest says.
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

Said = TypeVar("Said", bound=BaseModel)
Params = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FleetQuery(Generic[Said]):
    """What is asked of every butler: of ours by a call, of others by a path below `memory`."""

    model: type[Said]
    here: Callable[[ButlerAccess], Awaitable[Any]]
    path: str
    params: Params


@dataclass(frozen=True, slots=True)
class Reply(Generic[Said]):
    """What one butler said, or why it said nothing."""

    name: str
    said: Said | None
    error: str | None = None
    is_remote: bool = False


class Fleet:
    """The butlers of this home and those of others that its settings name."""

    def __init__(self, app_state: AppState) -> None:
        self._app_state = app_state
        self._client: httpx2.AsyncClient | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Within this block remote butlers can be asked."""
        async with httpx2.AsyncClient(
            trust_env=False, timeout=None, follow_redirects=False
        ) as client:
            self._client = client
            try:
                yield
            finally:
                self._client = None

    def here(self, visitor: Visitor) -> list[str]:
        """The butlers of this home that a caller may see, by name."""
        home = self._app_state
        return sorted(visitor.tenants.keys() & (home.butlers.keys() | home.failed.keys()))

    def there(self, visitor: Visitor) -> list[RemoteButler]:
        """The remote butlers that a caller may see, by name."""
        shown = (one for one in self._app_state.fleet.remotes if one.name in visitor.remotes)
        return sorted(shown, key=lambda remote: remote.name)

    def names(self, visitor: Visitor) -> list[str]:
        """The butlers a caller may see, those of this home first, each group by name."""
        return [*self.here(visitor), *(remote.name for remote in self.there(visitor))]

    async def ask(
        self, visitor: Visitor, request_id: str, question: FleetQuery[Said]
    ) -> list[Reply[Said]]:
        """Every butler's reply, in the order of `names`."""
        replies = await asyncio.gather(
            *(self._ask_here(name, visitor, request_id, question) for name in self.here(visitor)),
            *(self._ask_there(remote, request_id, question) for remote in self.there(visitor)),
        )
        return list(replies)

    async def _ask_here(
        self, name: str, visitor: Visitor, request_id: str, question: FleetQuery[Said]
    ) -> Reply[Said]:
        async def answer() -> Said:
            access = access_butler(self._app_state, visitor, name, request_id)
            return question.model.model_validate(await question.here(access))

        return await self._within_time(name, answer, is_remote=False)

    async def _ask_there(
        self, remote: RemoteButler, request_id: str, question: FleetQuery[Said]
    ) -> Reply[Said]:
        async def answer() -> Said:
            body = await self._fetch(remote, request_id, question.path, question.params)
            return question.model.model_validate_json(body)

        return await self._within_time(remote.name, answer, is_remote=True)

    async def _within_time(
        self, name: str, answer: Callable[[], Awaitable[Said]], *, is_remote: bool
    ) -> Reply[Said]:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return Reply(name, await answer(), is_remote=is_remote)
        except TimeoutError:
            error = f"no answer within {ANSWER_SECONDS:g} seconds"
        except httpx2.HTTPError as failed:
            error = f"cannot be reached ({type(failed).__name__})"
        except ValidationError:
            error = "answered something that is no butler's answer"
        except ButlersError as failed:
            error = str(failed)
        except Exception as failed:  # noqa: BLE001  whatever it was, the rest is complete
            log.exception("a butler could not be asked", butler=name)
            error = f"failed ({type(failed).__name__}); the log says more"
        return Reply(name, None, error, is_remote)

    async def _fetch(
        self, remote: RemoteButler, request_id: str, path: str, params: Params
    ) -> bytes:
        token = os.environ.get(remote.token_env)
        if not token:
            raise Unavailable(f"set the environment variable {remote.token_env} to its token")
        if self._client is None:
            raise Unavailable("remote butlers can be asked only while serving")
        headers = {"Authorization": f"Bearer {token}", "X-Request-Id": request_id}
        url = f"{remote.url}/memory/{path}"
        request = self._client.stream("GET", url, params=dict(params), headers=headers)
        async with request as response:
            if response.status_code != 200:
                raise Unavailable(f"answered with status {response.status_code}")
            return await _bounded(response)


async def _bounded(response: httpx2.Response) -> bytes:
    parts, size = [], 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise Unavailable(f"answered with more than {MAX_ANSWER_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)
