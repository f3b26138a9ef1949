"""The contract between a butler and its modules, on one page.

A module is created once per butler, started with its settings and the butler's database, asked for
its operations and jobs, and stopped in reverse order. It does not know which interface calls it:
each call gets an operation context for its caller.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from pydantic import BaseModel

from butlers.auth.rights import Caller
from butlers.clock import Clock, ClockDoubt, undoubted, utc_now
from butlers.db.branch import Branch
from butlers.db.postgres import Database
from butlers.db.statements import Rows
from butlers.errors import Forbidden, InvalidInput, Unavailable
from butlers.ids import NewId, new_id
from butlers.kernel.secrets import masked
from butlers.kernel.text import one_line
from butlers.kernel.throttle import ConcurrencyLimiter, metered
from butlers.llm import LanguageModel
from butlers.operation import Audience, Operation, OperationEffect

MAX_REQUEST_ID = 200
MAX_CALL_SECONDS = 60.0
"""How long a call may take, waiting for a free slot included."""


@dataclass(frozen=True, slots=True)
class ButlerEnvironment:
    """What a module gets from the butler that loads it."""

    butler: str
    tenant_id: str = "default"
    clock: Clock = utc_now
    new_id: NewId = new_id
    language_model: LanguageModel | None = None
    directory: Path | None = None
    """The butler's directory, for files of a module."""
    clock_doubt: ClockDoubt = undoubted
    """Checked before anything irreversible is done because of the time."""
    limiter: ConcurrencyLimiter = field(default_factory=ConcurrencyLimiter)
    check_storing: Callable[[Caller, Mapping[str, Any]], None] = lambda caller, given: None
    """Raises if a caller may not store these words now, because they are private."""
    sessions_aside: Callable[[], list[dict[str, Any]]] = list
    """Lists the sessions of the butler that could not be stored."""
    find_given: Rows | None = None
    """Finds which sessions were given some memories."""


class NotRun(Exception):
    """A job decided not to run; the message says why."""


@dataclass(frozen=True, slots=True)
class Job:
    """Work done on a schedule; its result is recorded in the run history.

    A result with `errors` counts as failed, or as partly succeeded if `changed` is true; its
    `warnings` are shown with the run.
    """

    name: str
    cron: str
    run: Callable[[], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a module works, with details for a person."""

    ok: bool
    details: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class HasBudget(LanguageModel, Protocol):
    """A language model with a daily budget."""

    async def check(self) -> None:
        """Raise BudgetExhausted or NotReached if it may not be called now."""
        ...

    def for_tenant(self, tenant: str) -> "HasBudget":
        """Return the model for one tenant, which gets a share of the budget."""
        ...


class Module(ABC):
    """Base class of what a butler can load."""

    name: ClassVar[str]
    dependencies: ClassVar[tuple[str, ...]] = ()
    settings_model: ClassVar[type[BaseModel]]
    """A `ModuleSection` declares what the host needs to know without loading the module."""
    migrations: ClassVar[Branch | None] = None

    operations: ClassVar[Iterable[Operation]] = ()
    """Its operations, from which every interface is built."""

    def __init__(self, environment: ButlerEnvironment, config: BaseModel | None = None) -> None:
        self.environment = environment
        self.config: Any = config if config is not None else self.settings_model()
        self.failure = ""

    def check_started(self) -> None:
        """Raise Unavailable, with the reason, if it could not start."""
        if self.failure:
            module = f"butler {self.environment.butler}: module {self.name}"
            raise Unavailable(f"{module} failed to start: {self.failure}")

    @abstractmethod
    async def on_startup(self, config: BaseModel | None, database: Database) -> None:
        """Start with settings and database; operations may be called from then on."""

    @abstractmethod
    async def on_shutdown(self) -> None:
        """Release every resource."""

    def operation_context(self, caller: Caller, request_id: str | None = None) -> Any:
        """Return the context in which its operations run for a caller; it must have started."""
        raise Unavailable(f"the module {self.name} has no operations")

    async def call(
        self,
        operation: Operation,
        caller: Caller,
        given: Mapping[str, Any],
        request_id: str | None = None,
    ) -> Any:
        """Run an operation for a caller and return its output as JSON values.

        Forbidden if the caller may not, Unavailable if it takes longer than `MAX_CALL_SECONDS`
        together with waiting for a free slot. Reads and writes, and tenants, wait separately.
        Maintenance waits for no slot and has no time limit.
        """
        self._authorise(operation, caller)
        if operation.stores_text:
            self.environment.check_storing(caller, given)
        if operation.is_maintenance:
            return await operation.perform(self.operation_context(caller, request_id), **given)
        reads = operation.effect is OperationEffect.READS
        try:
            async with asyncio.timeout(MAX_CALL_SECONDS) as limit:
                async with self.environment.limiter.of(caller.tenant_id, reads):
                    context = self.operation_context(caller, request_id)
                    return await metered(operation.perform(context, **given))
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise Unavailable(
                f"{operation.name} was not done within {MAX_CALL_SECONDS:g} seconds; ask for less "
                "at once, or try again"
            ) from error

    def _authorise(self, operation: Operation, caller: Caller) -> None:
        """Raise Forbidden, with the reason, if a caller may not call an operation."""
        if not operation.keeps_scopes:
            caller.require_unlimited(operation.name)
        if operation.callers is Audience.OWNER and caller.tenant_id != self.environment.tenant_id:
            raise Forbidden(f"{operation.tool} is for {operation.callers}")
        caller.require(operation.needs)

    def default(self, setting: str) -> Any:
        """Return a setting by its dotted name within the module's section."""
        return reduce(getattr, setting.split("."), self.config)

    def jobs(self) -> Sequence[Job]:
        """Return the jobs to run on a schedule."""
        return ()

    async def warm_up(self) -> None:
        """Load what the first call would wait for; the daemon calls it."""
        return

    async def health(self) -> Health:
        """Return its health now."""
        return Health(ok=True)


def request_id(request_context: dict[str, Any]) -> str | None:
    """Return the request id that a caller gave, cleaned; None without one."""
    given = request_context.get("request_id")
    if given is None:
        return None
    cleaned = masked(one_line(given), is_id=True).text if isinstance(given, str) else ""
    if not 1 <= len(cleaned) <= MAX_REQUEST_ID:
        raise InvalidInput(
            f"request_context.request_id: found {given!r:.80}; "
            f"valid is a text of 1 to {MAX_REQUEST_ID} characters"
        )
    return cleaned
