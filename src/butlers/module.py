"""The contract between a butler and its modules, on one page.

A module is made once per butler, started with its settings and the butler's database, asked for
its tools and jobs, and stopped in reverse order. It never learns how it is served: who is calling
comes from `current_caller`, which the host sets around every call.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from pydantic import BaseModel

from butlers.clock import Clock, utc_now
from butlers.db.migrate import Branch
from butlers.db.postgres import Database
from butlers.errors import InvalidInput
from butlers.ids import NewId, new_id
from butlers.kernel.text import one_line
from butlers.llm import LanguageModel

MAX_REQUEST_ID = 200


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking, as the host authenticated it; a tool argument never changes it.

    `agent` is the name its token was made for; empty for a token of the whole tenant.
    """

    tenant_id: str
    actor: str
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a module is told about the butler it serves."""

    butler: str
    tenant_id: str = "default"
    clock: Clock = utc_now
    new_id: NewId = new_id
    language_model: LanguageModel | None = None
    directory: Path | None = None
    """The butler's own directory, for what a module keeps in files."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One MCP tool: its docstring is what the calling model reads.

    One that `reads_only` changes nothing a user would miss, so clients may call it unasked.
    """

    name: str
    function: Callable[..., Awaitable[Any]]
    reads_only: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """Work done on a schedule; what it returns is kept in the run history.

    A result whose `errors` are not empty is that of a failure.
    """

    name: str
    cron: str
    run: Callable[[], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Health:
    """How a module is: whether it can work, and what a person should know."""

    ok: bool
    details: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class Rationed(Protocol):
    """A language model that may be asked only so often in a day."""

    async def check(self) -> None:
        """Raise BudgetExhausted if it may not be asked now."""
        ...


class Module(ABC):
    """What a butler can load; a subclass names itself and what it needs."""

    name: ClassVar[str]
    dependencies: ClassVar[tuple[str, ...]] = ()
    settings_model: ClassVar[type[BaseModel]]
    """A `ModuleSection` says here what the house must know of the module without loading it."""
    migrations: ClassVar[Branch | None] = None

    def __init__(self, surroundings: Surroundings, config: BaseModel | None = None) -> None:
        self.surroundings = surroundings

    @abstractmethod
    async def on_startup(self, config: BaseModel | None, database: Database) -> None:
        """Take hold of settings and database; tools may be called from here on."""

    @abstractmethod
    async def on_shutdown(self) -> None:
        """Let go of everything."""

    def tools(self) -> Sequence[Tool]:
        """The tools to serve."""
        return ()

    def jobs(self) -> Sequence[Job]:
        """The jobs to run on a schedule."""
        return ()

    async def warm_up(self) -> None:
        """Load now what the first caller would have to wait for; asked of a daemon's modules."""
        return

    async def health(self) -> Health:
        """How it is now."""
        return Health(ok=True)


_caller: ContextVar[Caller | None] = ContextVar("butlers_caller", default=None)


def current_caller(surroundings: Surroundings) -> Caller:
    """Who is asking; without authentication, the butler's own configured tenant."""
    return _caller.get() or Caller(surroundings.tenant_id, "local")


@contextmanager
def calling_as(caller: Caller) -> Iterator[None]:
    """Everything inside is asked by this caller."""
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


def request_id(request_context: dict[str, Any] | None) -> str | None:
    """The request's id on one line, if the caller gave one."""
    given = (request_context or {}).get("request_id")
    if given is None:
        return None
    cleaned = one_line(given) if isinstance(given, str) else ""
    if not 1 <= len(cleaned) <= MAX_REQUEST_ID:
        raise InvalidInput(
            f"request_context.request_id: found {given!r:.80}; "
            f"valid is a text of 1 to {MAX_REQUEST_ID} characters"
        )
    return cleaned
