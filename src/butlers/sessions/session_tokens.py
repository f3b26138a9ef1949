"""The tools of a butler's own sessions: where they are, and who may use them for how long.

A token is kept in the memory of the process that serves the tools, by its digest: none is
written down, and none outlives its session or that process.
"""

import hashlib
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from butlers.llm import ToolServer
from butlers.module import Caller


@dataclass(frozen=True, slots=True)
class _Lent:
    caller: Caller
    until: float


class SessionTokens:
    """What sessions of one butler may call, and as whom."""

    def __init__(self) -> None:
        self.url = ""
        """Where this process serves the butler's tools; empty while it does not."""
        self._lent: dict[bytes, _Lent] = {}

    @contextmanager
    def lent(self, caller: Caller, seconds: float) -> Iterator[ToolServer | None]:
        """The tools as this caller, for the time of the block and no longer than that; None
        where this process serves none."""
        if not self.url:
            yield None
            return
        token = f"btl_{secrets.token_urlsafe(32)}"
        digest = _digest(token)
        self._lent[digest] = _Lent(caller, time.monotonic() + seconds)
        try:
            yield ToolServer(self.url, token)
        finally:
            del self._lent[digest]

    def caller(self, token: str) -> Caller | None:
        """Who a token stands for, or None."""
        lent = self._lent.get(_digest(token))
        return lent.caller if lent is not None and time.monotonic() < lent.until else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
