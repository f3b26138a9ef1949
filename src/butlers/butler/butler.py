"""One butler: its settings, its database and its loaded modules."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

import structlog

from butlers.butler import registry
from butlers.butler.database import DatabaseServer
from butlers.butler.home import Home
from butlers.clock import Clock, utc_now
from butlers.db.postgres import Database
from butlers.errors import ButlersError, NotFound, Unavailable
from butlers.ids import NewId, new_id
from butlers.jobs.planned import jobs_of
from butlers.jobs.policy import Outcome
from butlers.jobs.schedule import Schedule
from butlers.jobs.spending import Account, Spending, limits_of, model_of
from butlers.kernel.secrets import masked
from butlers.memory.handle import Memory
from butlers.memory.module import MemoryModule
from butlers.module import Health, Module, Surroundings
from butlers.sessions.fail_open import forgiven
from butlers.sessions.session import SessionMemory
from butlers.sessions.spawner import Spawner, session_model
from butlers.settings.files import load_butler
from butlers.settings.sections import ButlerSettings

log = structlog.get_logger(__name__)
_HEALTH_SECONDS = 5.0
# Starting a database takes longer than asking it; still nobody waits for it for ever: not much
# before the answer of a session, and a little longer once it is given.
_OPENING_SECONDS = 6.0
_LATEST_SECONDS = 15.0


class Butler:
    """Modules loaded in dependency order over one database, unloaded in reverse."""

    def __init__(
        self,
        settings: ButlerSettings,
        server: DatabaseServer,
        *,
        clock: Clock = utc_now,
        new_id: NewId = new_id,
        known: Mapping[str, type[Module]] = registry.KNOWN,
    ) -> None:
        self.settings = settings
        self.name = settings.butler.name
        self._server = server
        self._known = known
        self._clock = clock
        limits, section = limits_of(settings)
        self.spending = Spending(lambda: self.database, limits, clock, Account.MODULES, section)
        model = model_of(settings, self.spending)
        self._directory = server.home.butler_directory(self.name)
        tenant = settings.butler.tenant
        surroundings = Surroundings(self.name, tenant, clock, new_id, model, self._directory)
        order = registry.load_order((n for n in known if settings.is_enabled(n)), known)
        self.modules: Sequence[Module] = [
            known[name](surroundings, settings.module(name)) for name in order
        ]
        self._started: list[Module] = []
        self._database: Database | None = None

    @property
    def database(self) -> Database:
        """The butler's database, open from start to stop."""
        if self._database is None:
            raise Unavailable(f"the database of butler {self.name} is not open")
        return self._database

    @property
    def is_open(self) -> bool:
        """Whether it has started, if not with all of its modules."""
        return self._database is not None

    def schedule(self) -> Schedule:
        """The schedule of a butler that has started; without a runtime its prompts are skipped."""
        has_runtime = self.settings.runtime.kind != "none"
        run_prompt = self.spawner(self.session_memory()).run_prompt if has_runtime else None
        planned = jobs_of(self.settings, self._started, run_prompt)
        return Schedule(
            self.database, planned, clock=self._clock, when_ended=partial(_count_run, self.name)
        )

    def spawner(self, memory: SessionMemory) -> Spawner:
        """The sessions of its own, which take from this memory and leave there what happened."""
        model = session_model(self.settings, lambda: self.database)
        return Spawner(self.settings, self._directory, memory, model)

    def session_memory(self, at_most: float = 600.0) -> SessionMemory:
        """The memory as sessions use it; it is waited for at most so many seconds."""

        async def memory() -> Memory:
            return self.memory

        seconds = min(self.settings.runtime.context_timeout_seconds, at_most)
        return SessionMemory(self.name, memory, seconds)

    @property
    def memory(self) -> Memory:
        """The memory of a butler that has started; Unavailable where it has none."""
        module = self.module(MemoryModule.name)
        if not isinstance(module, MemoryModule):
            raise Unavailable(f"butler {self.name} has another memory, which cannot be asked")
        return module.memory

    def module(self, name: str) -> Module:
        """A loaded module by name."""
        for module in self.modules:
            if module.name == name:
                module.check_started()
                if module in self._started:
                    return module
        raise Unavailable(
            f"butler {self.name} does not have the {name} module; "
            f"set modules.{name}.enabled = true in its butler.toml"
        )

    async def start(self) -> None:
        """Start what has not started; where nothing can, nothing is left behind and why is told.

        A module that cannot start keeps none of the others; the next call tries it again.
        """
        try:
            if self._database is None:
                self._database = await self._open_database()
            for module in self.modules:
                if module not in self._started:
                    await self._start_module(module, self._database)
            registry.check_tool_names(self._started)
        except BaseException as error:
            await self.stop()
            for module in self.modules:
                module.failure = _reason(error)
            raise
        if not self._started:
            await self.stop()
            for module in self.modules:
                module.check_started()

    @property
    def failures(self) -> dict[str, str]:
        """Why each module that could not start did not."""
        return {module.name: module.failure for module in self.modules if module.failure}

    async def stop(self) -> None:
        """Modules let go in reverse order; one that fails does not keep the others."""
        while self._started:
            await self._stop_module(self._started.pop())
        if self._database is not None:
            await self._database.close()
            self._database = None

    async def health(self) -> dict[str, Health]:
        """How each module is; one that cannot say is unwell."""
        failed = {
            name: Health(ok=False, details={"error": why}) for name, why in self.failures.items()
        }
        return failed | {module.name: await self._health_of(module) for module in self._started}

    async def _open_database(self) -> Database:
        names = [module.name for module in self.modules]
        section = self.settings.database
        access = await self._server.prepare(
            self.name, section, registry.branches(self._known), registry.targets(names, self._known)
        )
        return await Database.open(
            access,
            pool_min=section.pool_min,
            pool_max=section.pool_max,
            timeout=section.statement_timeout_seconds,
        )

    async def _start_module(self, module: Module, database: Database) -> None:
        try:
            for needed in self.failures.keys() & set(module.dependencies):
                raise Unavailable(f"it needs module {needed}, which failed to start")
            await module.on_startup(self.settings.module(module.name), database)
        except Exception as error:  # noqa: BLE001  the others must still start
            module.failure = _reason(error)
            await self._stop_module(module)
            words = {"butler": self.name, "module": module.name, "error": module.failure}
            log.error("module failed to start", **words)
            return
        except BaseException:
            await self._stop_module(module)
            raise
        module.failure = ""
        self._started.append(module)
        log.debug("module started", butler=self.name, module=module.name)

    async def _stop_module(self, module: Module) -> None:
        try:
            await module.on_shutdown()
        except Exception:  # noqa: BLE001  the others must still be told to stop
            log.exception("module failed to stop", butler=self.name, module=module.name)

    async def _health_of(self, module: Module) -> Health:
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                return await module.health()
        except TimeoutError:
            return Health(ok=False, details={"error": f"no answer in {_HEALTH_SECONDS:g} seconds"})
        except ButlersError as error:
            return Health(ok=False, details={"error": str(error)})


def _reason(error: BaseException) -> str:
    """What went wrong, in words that anybody may read."""
    return masked(str(error) or type(error).__name__).text


def butler_settings(home: Home, name: str) -> ButlerSettings:
    """The settings of a butler of this home."""
    names = home.butler_names()
    if name not in names:
        known = f"there are {', '.join(names)}" if names else "there are none yet"
        raise NotFound(
            f"there is no butler {name!r} in {home.root}; {known}. `butlers new {name}` makes it"
        )
    return load_butler(home.butler_file(name), home_file=home.settings_file)


@asynccontextmanager
async def hosted(
    home: Home, settings: Iterable[ButlerSettings]
) -> AsyncIterator[tuple[DatabaseServer, list[Butler]]]:
    """Butlers yet to be started; at the end all are stopped, whatever happens."""
    server = DatabaseServer(home)
    butlers = [Butler(one, server) for one in settings]
    try:
        yield server, butlers
    finally:
        for butler in reversed(butlers):
            await butler.stop()
        await server.release()


@asynccontextmanager
async def opened_butler(home: Home, name: str) -> AsyncIterator[Butler]:
    """A butler, started in this process beside whoever else uses its home."""
    async with hosted(home, [butler_settings(home, name)]) as (_, [butler]):
        await butler.start()
        yield butler


@asynccontextmanager
async def opened_spawner(home: Home, settings: ButlerSettings) -> AsyncIterator[Spawner]:
    """The sessions of a butler in this process; it answers even if its database never starts."""
    async with hosted(home, [settings]) as (_, [butler]):
        starting = asyncio.create_task(butler.start())
        # Whoever needs it is told of its failure; if nobody does, that is no surprise.
        starting.add_done_callback(lambda one: one.cancelled() or one.exception())

        async def memory() -> Memory:
            async with asyncio.timeout(_LATEST_SECONDS):
                await asyncio.shield(starting)
            return butler.memory

        try:
            if settings.runtime.kind != "none":
                await forgiven("start of memory", memory, otherwise=None, seconds=_OPENING_SECONDS)
            seconds = settings.runtime.context_timeout_seconds
            yield butler.spawner(SessionMemory(butler.name, memory, seconds))
        finally:
            starting.cancel()
            await asyncio.wait([starting])


def _count_run(butler: str, job: str, outcome: Outcome) -> None:
    # Only a process that runs jobs pays for the import.
    from butlers import metrics  # noqa: PLC0415

    metrics.JOB_RUNS.labels(butler, job, outcome).inc()
