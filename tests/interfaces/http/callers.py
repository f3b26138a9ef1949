"""Callers of the API of a real daemon, each with a token of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from butlers.auth.rights import Right
from butlers.auth.token_store import TokenStore
from butlers.host.home import Home
from interfaces.daemons import Daemon


class ApiCaller:
    """One token at one butler; paths are below `/api/butlers/{butler}/memory`."""

    def __init__(self, http: httpx2.AsyncClient, url: str, butler: str, token: str) -> None:
        self._http, self._url, self.butler, self.token = http, url, butler, token

    async def send(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **how: Any
    ) -> httpx2.Response:
        """Send a request to any path of the daemon."""
        given = {"Authorization": f"Bearer {self.token}"} | (headers or {})
        return await self._http.request(method, f"{self._url}{path}", headers=given, **how)

    async def get(self, path: str, **params: Any) -> Any:
        """What a path answers, which must be a success."""
        return told(await self.send("GET", self._below(path), params=params))

    async def post(self, path: str, body: Any = None, **how: Any) -> Any:
        """What a path answers to a body, which must be a success."""
        return told(await self.send("POST", self._below(path), json=body, **how))

    async def patch(self, path: str, body: Any) -> Any:
        return told(await self.send("PATCH", self._below(path), json=body))

    async def refused(self, method: str, path: str, **how: Any) -> tuple[int, dict[str, Any]]:
        """The status and the explanation of a request that must fail."""
        answer = await self.send(method, self._below(path), **how)
        assert answer.status_code >= 400, answer.text
        return answer.status_code, answer.json()["error"]

    def _below(self, path: str) -> str:
        return f"/api/butlers/{self.butler}/memory{path}"


def told(answer: httpx2.Response) -> Any:
    assert answer.is_success, (answer.status_code, answer.text)
    return answer.json()


@asynccontextmanager
async def calling(
    daemon: Daemon, tenant: str, butler: str = "general", token: str | None = None
) -> AsyncIterator[ApiCaller]:
    """A caller of a tenant at a butler."""
    if token is None:
        _, token = token_store(daemon.home).create(butler, tenant, rights=Right.OPERATE)
    async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=60) as http:
        yield ApiCaller(http, daemon.url, butler, token)


def token_store(home: Home) -> TokenStore:
    return TokenStore(home.tokens_file)
