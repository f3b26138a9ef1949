"""One butler: its settings, its database and its loaded modules."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import structlog

from butlers.auth.rights import Caller
from butlers.auth.tokens import SessionTokens
from butlers.clock import Clock, ClockSources, utc_now
from butlers.db.postgres import Access, Database
from butlers.db.provision import rewrite_tables
from butlers.errors import ButlersError, Unavailable
from butlers.host import registry
from butlers.host.database import DatabaseServer, Storage, replicas_of
from butlers.host.home import Home, butler_settings
from butlers.ids import NewId, new_id
from butlers.jobs.clock_watch import ClockWatch
from butlers.jobs.policy import RunOutcome, jobs_of
from butlers.jobs.schedule import Schedule
from butlers.jobs.spending import BudgetAccount, Spending, limits_of, model_of
from butlers.kernel.secrets import masked
from butlers.kernel.throttle import ConcurrencyLimiter
from butlers.memory.handle import Memory
from butlers.memory.module import MemoryModule
from butlers.module import ButlerEnvironment, Health, Module
from butlers.sessions.injection_log import InjectionLog, find_given
from butlers.sessions.log import SessionLog
from butlers.sessions.pauses import current_pause
from butlers.sessions.privacy import check_call
from butlers.sessions.session import CONTEXT_SECONDS, SessionMemory
from butlers.sessions.set_aside import list_sessions_aside
from butlers.sessions.spawner import Spawner, session_model
from butlers.sessions.tool_memory import ToolMemory
from butlers.settings.sections import ButlerSettings

log = structlog.get_logger(__name__)
_HEALTH_SECONDS = 5.0
TO_READ = (
    "When the user's work allows it, offer to read them: memory_claim_episodes gives you some, "
    "memory_submit_consolidation takes what you draw from them."
)


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
        clock_sources: ClockSources | None = None,
    ) -> None:
        self.settings = settings
        self.name = settings.butler.name
        self.home: Home = server.home
        self.server = server
        self._known, self._clock = known, clock
        limits, section = limits_of(settings)
        account = BudgetAccount.MODULES
        self.spending = Spending(lambda: self.database, limits, clock, account, section)
        self._directory = self.home.butler_directory(self.name)
        self.storage = Storage(lambda: self.database)
        self.clock_watch = ClockWatch(lambda: self.database, clock, clock_sources)
        self.limiter = ConcurrencyLimiter()
        model, doubt = model_of(settings, self.spending), self.clock_watch.doubt
        tenant, directory = settings.butler.tenant, self._directory
        environment = ButlerEnvironment(
            *(self.name, tenant, clock, new_id, model, directory, doubt, self.limiter),
            check_storing=self._check_storing,
            sessions_aside=partial(list_sessions_aside, self.home.root, self.name),
            find_given=find_given,
        )
        order = registry.load_order((n for n in known if settings.is_enabled(n)), known)
        self.modules: Sequence[Module] = [
            known[name](environment, settings.module(name)) for name in order
        ]
        self._started = list[Module]()
        self._database: Database | None = None
        self._access: Access | None = None
        self.session_tokens = SessionTokens()
        self.session_log = SessionLog(lambda: self.database, clock)
        self.injections = InjectionLog(lambda: self.database, clock, new_id)

    @property
    def database(self) -> Database:
        """Return the butler's database, which is open from start to stop."""
        if self._database is None:
            raise Unavailable(f"the database of butler {self.name} is not open")
        return self._database

    async def scrub(self) -> list[str]:
        """Rewrite the tables without deleted rows; return those that could not be rewritten."""
        assert self._access is not None, f"butler {self.name} has not started"
        return await rewrite_tables(self._access.owner_dsn)

    @property
    def is_open(self) -> bool:
        """Whether it has started, with at least one module."""
        return self._database is not None

    def schedule(self) -> Schedule:
        """Return the schedule of its jobs; without a runtime, prompts are skipped."""
        has_runtime = self.settings.runtime.kind != "none"
        run_prompt = self.spawner(self.session_memory()).run_prompt if has_runtime else None
        jobs = jobs_of(self.settings, self._started, run_prompt)
        return Schedule(self.database, jobs, clock=self._clock, when_ended=self._count_run)

    def spawner(self, memory: SessionMemory, settings: ButlerSettings | None = None) -> Spawner:
        """Return what runs sessions of this butler with a memory."""
        chosen = settings or self.settings
        model = session_model(chosen, lambda: self.database)
        records, tokens = self.session_log, self.session_tokens
        spawner = Spawner(chosen, self._directory, memory, model, records, tokens)
        return replace(spawner, is_paused=lambda: bool(current_pause(str(self.home.root), ())))

    def settings_now(self) -> ButlerSettings:
        """Return the settings with `runtime` read anew, so that a change needs no restart."""
        runtime = butler_settings(self.home, self.name).runtime
        return self.settings.model_copy(update={"runtime": runtime})

    def session_memory(self, at_most: float = 600.0) -> SessionMemory:
        """Return the memory for sessions, which wait for it at most so many seconds.

        If the butler has no language model and agents may consolidate, they are invited to.
        """
        invited = self.settings.mcp.consolidate and self.settings.runtime.kind == "none"
        seconds = min(CONTEXT_SECONDS, at_most)
        offer, aside = TO_READ if invited else "", partial(list_sessions_aside, self.home.root)
        return SessionMemory(self.name, self._open_memory, seconds, offer, aside)

    def tool_memory(self, at_most: float) -> ToolMemory:
        """Return the memory for tool calls, which wait for it at most so many seconds."""
        return ToolMemory(self.name, self._open_memory, at_most)

    async def _open_memory(self) -> Memory:
        return self.memory

    @property
    def memory(self) -> Memory:
        """Return the memory of a started butler; Unavailable if it has none."""
        module = self.module(MemoryModule.name)
        if not isinstance(module, MemoryModule):
            raise Unavailable(f"butler {self.name} has another memory module, which cannot do this")
        return module.memory

    def module(self, name: str) -> Module:
        """Return a started module by name; Unavailable with the reason otherwise."""
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
        """Start the modules that have not started; raise the reason if none can.

        A module that fails does not stop the others; the next call tries it again.
        """
        try:
            if self._database is None:
                self._database = await self._open_database()
                await self._look_at_clock()
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
        """Why each module that did not start could not."""
        return {module.name: module.failure for module in self.modules if module.failure}

    async def start_warm(self) -> None:
        """Start and load what the first call would wait for."""
        await self.start()
        for module in self._started:
            await module.warm_up()

    async def stop(self) -> None:
        """Stop modules in reverse order, even if one fails."""
        while self._started:
            await self._stop_module(self._started.pop())
        if self._database is not None:
            await self._database.close()
            self._database = None

    async def health(self) -> dict[str, Health]:
        """Return each module's health; one that does not answer is not ok."""
        failed = {name: _unwell(reason) for name, reason in self.failures.items()}
        return failed | {module.name: await self._health_of(module) for module in self._started}

    async def notes(self) -> list[str]:
        """Return warnings without their reasons, because anybody may read them."""
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                doubt = await self.clock_watch.look()
                planned = await self.schedule().plan()
        except (TimeoutError, ButlersError):
            return []
        notes = ["the clock is in doubt"] if doubt else []
        notes += [
            f"{job.last.job} {job.last.remark}" for job in planned if job.last and job.last.remark
        ]
        return notes + (["a replica is not read from"] if self.database.replica_problems() else [])

    def _check_storing(self, caller: Caller, given: Mapping[str, Any]) -> None:
        project = asdict(caller.project) if caller.project else None
        check_call(str(self.home.root), project, given)

    async def _open_database(self) -> Database:
        names = [module.name for module in self.modules]
        section = self.settings.database
        self._access = access = await self.server.prepare(
            self.name, section, registry.branches(self._known), registry.targets(names, self._known)
        )
        return await Database.open(
            access,
            pool_max=self.server.pool_max,
            replicas=replicas_of(access, section.replica_urls, self.name),
            quota=await self.server.quota(section),
        )

    async def _look_at_clock(self) -> None:
        """Record the time; a database that cannot be written to does not prevent the start."""
        try:
            doubt = await self.clock_watch.doubt()
        except ButlersError as error:
            log.warning("the clock could not be checked", butler=self.name, error=str(error))
            return
        if doubt is not None:
            log.warning("the clock is in doubt", butler=self.name, reason=doubt)

    async def _start_module(self, module: Module, database: Database) -> None:
        try:
            for needed in self.failures.keys() & set(module.dependencies):
                raise Unavailable(f"it needs module {needed}, which failed to start")
            await module.on_startup(self.settings.module(module.name), database)
        except Exception as error:  # noqa: BLE001  the others must still start
            module.failure = _reason(error)
            await self._stop_module(module)
            fields = {"butler": self.name, "module": module.name, "error": module.failure}
            log.error("module failed to start", **fields)
        except BaseException:
            await self._stop_module(module)
            raise
        else:
            module.failure = ""
            self._started.append(module)
            log.debug("module started", butler=self.name, module=module.name)

    async def _stop_module(self, module: Module) -> None:
        try:
            await module.on_shutdown()
        except Exception:  # noqa: BLE001  the others must still stop
            log.exception("module failed to stop", butler=self.name, module=module.name)

    async def _health_of(self, module: Module) -> Health:
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                return await module.health()
        except TimeoutError:
            return _unwell(f"no answer in {_HEALTH_SECONDS:g} seconds")
        except ButlersError as error:
            return _unwell(str(error))

    def _count_run(self, job: str, outcome: RunOutcome) -> None:
        # Only a process that runs jobs pays for the import.
        from butlers import metrics  # noqa: PLC0415

        metrics.JOB_RUNS.labels(self.name, job, outcome).inc()


def _unwell(reason: str) -> Health:
    return Health(ok=False, details={"error": reason})


def _reason(error: BaseException) -> str:
    """Describe an error without secrets."""
    return masked(str(error) or type(error).__name__).text
