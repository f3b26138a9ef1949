"""The contract between a butler and its modules, on one page.

A module is made once per butler, started with its settings and the butler's database, asked for
its operations and jobs, and stopped in reverse order. It never learns how it is served: doors call
its operations at a desk, which is made for whoever is calling.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from pydantic import BaseModel

from butlers.clock import Clock, ClockDoubt, undoubted, utc_now
from butlers.db.branch import Branch
from butlers.db.postgres import Database
from butlers.errors import Forbidden, InvalidInput, Unavailable
from butlers.ids import NewId, new_id
from butlers.kernel.concurrency import Turns
from butlers.kernel.rights import Right
from butlers.kernel.secrets import masked
from butlers.kernel.text import one_line
from butlers.llm import LanguageModel
from butlers.operation import Audience, Operation, OperationEffect

MAX_REQUEST_ID = 200
LONGEST_SECONDS = 60.0
"""How long a caller may be waited for by those behind it, its own waiting included."""


@dataclass(frozen=True, slots=True)
class Project:
    """What a caller works in: what it is known by, the surest first, its name and its place."""

    keys: tuple[str, ...]
    name: str
    place: str = ""

    @classmethod
    def of(cls, told: Any) -> "Project | None":
        """The project that somebody tells of, as `sessions.projects` identifies one; None else."""
        keys = told.get("keys") if isinstance(told, dict) else None
        if not isinstance(keys, list) or not keys or not all(isinstance(k, str) for k in keys):
            return None
        return cls(tuple(keys), str(told.get("name", "")), str(told.get("place", "")))


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking, as the host authenticated it; a tool argument never changes it.

    `agent` is the name its token was made for; empty for a token of the whole tenant. `project`
    is what it works in, where that is known. An operator is the person who runs the home. A token
    may be made for less than everything, and for somebody whose word overrules nobody.
    """

    tenant_id: str
    actor: str
    agent: str = ""
    project: Project | None = None
    low_trust: bool = False
    is_operator: bool = False
    rights: Right = Right.OPERATE
    scopes: tuple[str, ...] = ()
    """What alone it may store in, and see beside what is global; none for everything."""

    def may(self, operation: Operation) -> bool:
        """Whether its token was made for an operation."""
        in_bounds = operation.keeps_scopes or not self.scopes
        return in_bounds and self.rights.includes(operation.needs)

    def must_be_unlimited(self, what: str) -> None:
        """Forbidden where the caller's token is limited to scopes, to which this does not keep."""
        if self.scopes:
            raise Forbidden(
                f"this token is limited to {', '.join(self.scopes)}, and {what} is not; "
                "`butlers token new` without --scope makes one for everything"
            )

    def must(self, right: Right) -> None:
        """Forbidden where the caller's token was not made for it."""
        if not self.rights.includes(right):
            raise Forbidden(
                f"this token may {self.rights}, and this needs one that may {right}; "
                f"`butlers token new --rights {right}` makes such a token"
            )


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
    clock_doubt: ClockDoubt = undoubted
    """Asked before anything that cannot be undone is done because of the time."""
    turns: Turns = field(default_factory=Turns)


class NotRun(Exception):
    """A job decided not to run; the message says why."""


@dataclass(frozen=True, slots=True)
class Job:
    """Work done on a schedule; what it returns is kept in the run history.

    A result whose `errors` are not empty is that of a failure, or of a success in part where
    `changed` is true; its `warnings` are told to whoever looks.
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
        """Raise BudgetExhausted or NotReached if it may not be asked now."""
        ...

    def for_tenant(self, tenant: str) -> "RationedModel":
        """The same model for one tenant, who has a part of the day's budget."""
        ...


class RationedModel(LanguageModel, Rationed, Protocol):
    """A language model with a ration."""


class Module(ABC):
    """What a butler can load; a subclass names itself and what it needs."""

    name: ClassVar[str]
    dependencies: ClassVar[tuple[str, ...]] = ()
    settings_model: ClassVar[type[BaseModel]]
    """A `ModuleSection` says here what the house must know of the module without loading it."""
    migrations: ClassVar[Branch | None] = None

    operations: ClassVar[Iterable[Operation]] = ()
    """What it can be asked to do, from which every door is made."""

    def __init__(self, surroundings: Surroundings, config: BaseModel | None = None) -> None:
        self.surroundings = surroundings
        self.config: Any = config if config is not None else self.settings_model()
        self.failure = ""

    def check_started(self) -> None:
        """Unavailable, with the reason, where it could not start."""
        if self.failure:
            raise Unavailable(
                f"butler {self.surroundings.butler}: module {self.name} failed to start: "
                f"{self.failure}"
            )

    @abstractmethod
    async def on_startup(self, config: BaseModel | None, database: Database) -> None:
        """Take hold of settings and database; tools may be called from here on."""

    @abstractmethod
    async def on_shutdown(self) -> None:
        """Let go of everything."""

    def desk(self, caller: Caller, request_id: str | None = None) -> Any:
        """Where its operations are called on a caller's behalf, once it has started."""
        raise Unavailable(f"the module {self.name} has no operations")

    def admit(self, operation: Operation, caller: Caller) -> None:
        """Forbidden, with the reason, where an operation is not for a caller."""
        if not operation.keeps_scopes:
            caller.must_be_unlimited(operation.name)
        if operation.callers is Audience.OWNER and caller.tenant_id != self.surroundings.tenant_id:
            raise Forbidden(f"{operation.tool} is for {operation.callers}")
        caller.must(operation.needs)

    @asynccontextmanager
    async def turn(self, operation: Operation, caller: Caller) -> AsyncIterator[None]:
        """Within this block an operation may be done for a caller; it may have to wait for that.

        Whoever reads does not wait for those who write, nor one tenant for another. Upkeep takes
        as long as it takes.
        """
        self.admit(operation, caller)
        if operation.maintains:
            yield
            return
        reads = operation.effect is OperationEffect.READS
        try:
            async with asyncio.timeout(LONGEST_SECONDS) as limit:
                async with self.surroundings.turns.of((caller.tenant_id, reads)):
                    yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise Unavailable(
                f"{operation.name} was not done within {LONGEST_SECONDS:g} seconds; ask for less "
                "at once, or try again"
            ) from error

    def default(self, setting: str) -> Any:
        """What a setting says, by its name below the module's own."""
        return reduce(getattr, setting.split("."), self.config)

    def jobs(self) -> Sequence[Job]:
        """The jobs to run on a schedule."""
        return ()

    async def warm_up(self) -> None:
        """Load now what the first caller would have to wait for; asked of a daemon's modules."""
        return

    async def health(self) -> Health:
        """How it is now."""
        return Health(ok=True)


def request_id(request_context: dict[str, Any] | None) -> str | None:
    """The request's id on one line, if the caller gave one."""
    given = (request_context or {}).get("request_id")
    if given is None:
        return None
    cleaned = masked(one_line(given)).text if isinstance(given, str) else ""
    if not 1 <= len(cleaned) <= MAX_REQUEST_ID:
        raise InvalidInput(
            f"request_context.request_id: found {given!r:.80}; "
            f"valid is a text of 1 to {MAX_REQUEST_ID} characters"
        )
    return cleaned
