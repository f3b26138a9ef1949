"""The open notebook that every function takes, and checks of its arguments."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import quote

from butlers.clock import Clock, utc_now
from butlers.db.sqlite import SqliteDatabase, Stamp
from butlers.errors import InvalidInput
from butlers.ids import NewId, new_id
from butlers.kernel.secrets import Secrets
from butlers.kernel.text import clean
from butlers.notebook.model import MemoryCategory, to_text

MAX_AGENT_CHARS = 1_000
MAX_LIMIT = 10_000
_MOST_KNOWN_TERMS = 100_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NoteLimits:
    """The maximum length of a key and a content, in characters."""

    max_key_chars: int = 200
    max_content_chars: int = 100_000


class KnownFrequencies:
    """A cache of document frequencies, dropped as soon as the database may have changed."""

    def __init__(self) -> None:
        self._stamp: Stamp | None = None
        self._known: dict[int, dict[str, int]] = {}

    def at(self, stamp: Stamp, owner: int) -> dict[str, int]:
        """Return the cached frequencies of an owner under this stamp; additions are cached."""
        if stamp != self._stamp or len(self._known.get(owner, ())) > _MOST_KNOWN_TERMS:
            self.clear()
            self._stamp = stamp
        return self._known.setdefault(owner, {})

    def clear(self) -> None:
        """Forget everything."""
        self._known = {}


@dataclass(frozen=True, slots=True)
class Notebook:
    """An open notebook, the `db` of the functions that work on it; any thread may use it.

    Async calls run on `worker`, else on the default executor, never on the event loop.
    """

    sqlite: SqliteDatabase
    clock: Clock = utc_now
    new_id: NewId = new_id
    limits: NoteLimits = NoteLimits()
    secrets: Secrets = "mask"
    frequencies: KnownFrequencies = field(default_factory=KnownFrequencies)
    worker: Executor | None = None

    def now_text(self) -> str:
        """Format the current time as the tables store it."""
        return to_text(self.clock())

    async def apart(self, work: Callable[..., T], *arguments: object) -> T:
        """Run blocking work off the event loop and return its result."""
        within = contextvars.copy_context().run
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.worker, within, work, *arguments)

    def close(self) -> None:
        """Close the file."""
        self.sqlite.close()


def owner_id(tenant: str, agent: str) -> str:
    """Return the `agent_id` of an agent of a tenant; no other pair has the same."""
    return f"{quote(tenant, safe='')}/{quote(agent, safe='')}"


def checked_agent(agent_id: str) -> str:
    """Check an agent's id. It is not cleaned: two different ids must never become one."""
    if not agent_id or len(agent_id) > MAX_AGENT_CHARS or clean(agent_id) != agent_id:
        raise InvalidInput(
            f"agent_id {agent_id[:40]!r} ({len(agent_id)} characters) cannot be used;"
            f" give 1 to {MAX_AGENT_CHARS} characters that can be seen"
        )
    return agent_id


def checked_key(key: str, limits: NoteLimits) -> str:
    """Clean a key; refuse an empty or too long one."""
    cleaned = _within("key", key, limits.max_key_chars)
    if not cleaned.strip():
        raise InvalidInput(f"key {key[:40]!r} is empty; give the note a name")
    return cleaned


def checked_content(content: str, limits: NoteLimits) -> str:
    """Clean a content; refuse a too long one."""
    return _within("content", content, limits.max_content_chars)


def checked_limit(limit: object) -> int:
    """Check a limit."""
    if not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"limit is {limit!r}; give a whole number from 1 to {MAX_LIMIT}")
    return limit


def checked_category(category: str | None) -> MemoryCategory | None:
    """Check a category; None means all."""
    try:
        return None if category is None else MemoryCategory(category)
    except ValueError:
        valid = ", ".join(MemoryCategory)
        raise InvalidInput(f"category: found {category!r:.80}; valid are {valid}") from None


def _within(field: str, text: str, limit: int) -> str:
    cleaned = clean(text)
    if len(cleaned) > limit:
        raise InvalidInput(f"{field} has {len(cleaned)} characters; the limit is {limit}")
    return cleaned
