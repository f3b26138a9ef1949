"""What every function of the notebook is given: the open file, the time, fresh ids, the limits."""

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
from butlers.kernel.secret_policy import Secrets
from butlers.kernel.text import clean
from butlers.notebook.decay import to_text
from butlers.notebook.model import MemoryCategory

MAX_AGENT_CHARS = 1_000
MAX_LIMIT = 10_000
_MOST_KNOWN_TERMS = 100_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NoteLimits:
    """How long a key and a content may be, in characters."""

    max_key_chars: int = 200
    max_content_chars: int = 100_000


class KnownFrequencies:
    """Document frequencies read before, forgotten as soon as the database may have changed."""

    def __init__(self) -> None:
        self._stamp: Stamp | None = None
        self._known: dict[int, dict[str, int]] = {}

    def at(self, stamp: Stamp, owner: int) -> dict[str, int]:
        """What is known of an owner's terms under this stamp; what is added here is kept."""
        if stamp != self._stamp or len(self._known.get(owner, ())) > _MOST_KNOWN_TERMS:
            self.clear()
            self._stamp = stamp
        return self._known.setdefault(owner, {})

    def clear(self) -> None:
        """Forget everything."""
        self._known = {}


@dataclass(frozen=True, slots=True)
class Notebook:
    """An open notebook; the `db` of the functions that work on it.

    What is awaited works on `worker`, so that the event loop never waits for the disk or for
    another writer; without one it works on the loop's own threads. Any thread may use it.
    """

    sqlite: SqliteDatabase
    clock: Clock = utc_now
    new_id: NewId = new_id
    limits: NoteLimits = NoteLimits()
    secrets: Secrets = "mask"
    frequencies: KnownFrequencies = field(default_factory=KnownFrequencies)
    worker: Executor | None = None

    def now_text(self) -> str:
        """This instant as the tables hold it."""
        return to_text(self.clock())

    async def apart(self, work: Callable[..., T], *arguments: object) -> T:
        """What blocking work answers, done off the event loop."""
        within = contextvars.copy_context().run
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.worker, within, work, *arguments)

    def close(self) -> None:
        """Let go of the file."""
        self.sqlite.close()


def owner_id(tenant: str, agent: str) -> str:
    """The one `agent_id` that stands for an agent of a tenant, and for no other pair."""
    return f"{quote(tenant, safe='')}/{quote(agent, safe='')}"


def checked_agent(agent_id: str) -> str:
    """The agent's id, if it can own notes.

    Nothing is cleaned away here: two ids that differ must never become one.
    """
    if not agent_id or len(agent_id) > MAX_AGENT_CHARS or clean(agent_id) != agent_id:
        raise InvalidInput(
            f"agent_id {agent_id[:40]!r} ({len(agent_id)} characters) cannot be used;"
            f" give 1 to {MAX_AGENT_CHARS} characters that can be seen"
        )
    return agent_id


def checked_key(key: str, limits: NoteLimits) -> str:
    """The key as it is stored, if it is there and not too long."""
    cleaned = _within("key", key, limits.max_key_chars)
    if not cleaned.strip():
        raise InvalidInput(f"key {key[:40]!r} is empty; give the note a name")
    return cleaned


def checked_content(content: str, limits: NoteLimits) -> str:
    """The content as it is stored, if it is not too long."""
    return _within("content", content, limits.max_content_chars)


def checked_limit(limit: object) -> int:
    """How many notes are wanted at most, if that many can be."""
    if not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"limit is {limit!r}; give a whole number from 1 to {MAX_LIMIT}")
    return limit


def checked_category(category: str | None) -> MemoryCategory | None:
    """A category, or none for all of them."""
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
