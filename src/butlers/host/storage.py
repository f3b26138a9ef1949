"""Whether a butler's database can be written to: tried, because a full disk still answers."""

import asyncio
import time
from collections.abc import Callable

from butlers.db.postgres import Database
from butlers.db.queries import load
from butlers.db.statements import FirstRow, Touched
from butlers.errors import ButlersError

_SQL = load(__file__)

_touch = Touched(_SQL["touch"])
_use_little_memory = FirstRow(_SQL["use_little_memory"])
_take_room = FirstRow(_SQL["take_room"])
# However often it is asked for, by whomever.
_KNOWN_SECONDS, _PATIENCE_SECONDS = 5.0, 5.0


class Storage:
    """What one butler writes to."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self._trouble, self._tried_at = "", -_KNOWN_SECONDS
        self._trying = asyncio.Lock()

    async def trouble(self) -> str:
        """Why nothing can be written; empty when something could, a moment ago at most."""
        async with self._trying:
            if time.monotonic() - self._tried_at >= _KNOWN_SECONDS:
                self._trouble = await self._tried()
                self._tried_at = time.monotonic()
            return self._trouble

    async def _tried(self) -> str:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                async with self._database().system_transaction() as tx:
                    await _touch(tx)
                    await _use_little_memory(tx)
                    await _take_room(tx)
        except TimeoutError:
            return f"nothing could be written within {_PATIENCE_SECONDS:g} seconds"
        except ButlersError as error:
            return f"nothing can be written: {error}"
        return ""
