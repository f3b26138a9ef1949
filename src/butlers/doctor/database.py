"""Check the databases, and what each butler does in them: jobs, clock, backlog, reviews."""

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Sequence

from alembic.util import CommandError

from butlers.db.address import maintenance_url, without_login
from butlers.db.embedded.account import account_for
from butlers.db.embedded.binaries import binaries_for
from butlers.db.embedded.liveness import SOCKET_NAME
from butlers.db.embedded.shared_server import EmbeddedPostgres
from butlers.db.login import RUNTIME_ROLE, login_of, signs_in
from butlers.db.migrate import WAY_OUT, current_revisions, retired_revisions
from butlers.db.postgres import Access, Database
from butlers.db.primary_connector import connected
from butlers.db.provision import can_set_role, check_server, external_access
from butlers.db.upgrade import head_revision
from butlers.doctor import Finding, Severity, ok, problem, warning
from butlers.embedding import get_embedding_engine
from butlers.errors import ButlersError
from butlers.host import registry
from butlers.host.database import replicas_of
from butlers.host.home import Home
from butlers.jobs import runs
from butlers.jobs.clock_watch import DOUBTED, ClockWatch
from butlers.jobs.policy import RunOutcome
from butlers.jobs.runs import Run
from butlers.memory.flows.check import SOME, StoreCheck
from butlers.memory.flows.inbox import count_waiting, in_words
from butlers.memory.flows.lifecycle import for_every_tenant
from butlers.memory.flows.lifecycle.episode_retention import backlog, count_unread, crowded
from butlers.memory.handle import Memory
from butlers.memory.settings import MemoryModuleConfig
from butlers.settings.files import HouseSettings
from butlers.settings.names import database_name
from butlers.settings.sections import MODULE_JOBS, ButlerSettings

_LITTLE_BYTES = 2**30
_LONGEST_SOCKET_PATH = 99
_NAME_A_MODEL = "configure a language model in [runtime]"
_SHOWN = 5
_LOOK_SECONDS = 1.0
"""How far a replica may be behind and be read from."""


async def databases(home: Home, house: HouseSettings) -> list[Finding]:
    """Check the embedded server if any butler uses it, and each butler's database."""
    embedded = [s for s in house.butlers.values() if not s.database.url]
    external = [s for s in house.butlers.values() if s.database.url]
    findings = await _embedded(home, embedded) if embedded or not external else []
    for settings in external:
        findings += await _external(settings)
    return findings


async def _embedded(home: Home, butlers: Sequence[ButlerSettings]) -> list[Finding]:
    """Check the embedded server; if it does not run, it is started for the check."""
    server = EmbeddedPostgres(home.database_directory)
    data, findings = server.data_directory, list[Finding]()
    major = await asyncio.to_thread(lambda: binaries_for(account_for(data)).major)
    if len(str(data.parent / "run" / SOCKET_NAME)) > _LONGEST_SOCKET_PATH:
        message = f"the socket is in a shorter path, because {data.parent} is too long"
        findings.append(ok("database", message))
    if not data.exists():
        message = f"PostgreSQL {major} is installed; `butlers up` sets it up"
        return [ok("database", message), *findings]
    await asyncio.to_thread(server.start)
    try:
        findings.append(ok("database", f"PostgreSQL {major} runs in {data}"))
        free = shutil.disk_usage(data).free
        if free < _LITTLE_BYTES:
            message = f"{free / 2**30:.1f} GiB free under {data}"
            remedy = "free some space before the database runs out"
            findings.append(warning("database", message, remedy))
        for settings in butlers:
            database = database_name(settings.butler.name)
            access = Access(server.dsn(database), server.dsn(database, login_of(database)))
            findings += await _schema(settings, server.dsn(), access)
    finally:
        await asyncio.to_thread(server.stop)
    return findings


async def _external(settings: ButlerSettings) -> list[Finding]:
    """Check an external server; show its address, never its password."""
    check, url = f"database of {settings.butler.name}", settings.database.url
    where = without_login(url)
    try:
        async with connected(maintenance_url(url)) as connection:
            await check_server(connection)
            role = await can_set_role(connection)
            version = connection.get_server_version()
    except ButlersError as error:
        return [problem(check, f"{where}: {error}", "check database.url and the server")]
    findings = [ok(check, f"PostgreSQL {version.major}.{version.minor} with pgvector at {where}")]
    database = database_name(settings.butler.name)
    access = external_access(url, database)
    schema = await _schema(settings, maintenance_url(url), access)
    if not role:
        remedy = (
            f"`butlers up` creates it if allowed; otherwise run as a superuser: CREATE ROLE "
            f"{RUNTIME_ROLE}; GRANT {RUNTIME_ROLE} TO the user of database.url"
        )
        message = f"the role {RUNTIME_ROLE} is missing or may not be used"
        findings.append(warning(check, message, remedy))
    elif len(schema) > 1 and not await signs_in(access, database):
        message = (
            f"the login {login_of(database)} is missing: requests use the one of database.url with "
            "SET ROLE, which an injected statement could reset"
        )
        remedy = "give the login of database.url CREATEROLE and a password, then restart the daemon"
        findings.append(warning(check, message, remedy))
    return [*findings, *schema]


async def _schema(settings: ButlerSettings, maintenance: str, access: Access) -> list[Finding]:
    """Check that the database exists and is migrated; then check what the butler does in it."""
    name = settings.butler.name
    check, database = f"database of {name}", database_name(name)
    async with connected(maintenance) as connection:
        if not await connection.fetchval("select 1 from pg_database where datname = $1", database):
            return [ok(check, f"{database} does not exist yet; `butlers up` creates it")]
    migrated = _migrated(check, settings, await current_revisions(access.owner_dsn))
    if migrated.verdict is not Severity.OK:
        return [migrated]
    return [migrated, *await _upkeep(settings, access)]


def _migrated(check: str, settings: ButlerSettings, revisions: Sequence[str]) -> Finding:
    branches, at = registry.branches(), ", ".join(revisions) or "no revision"
    if too_old := retired_revisions(branches, revisions):
        return problem(check, f"its schema is at {', '.join(too_old)}, which is too old", WAY_OUT)
    try:
        for revision in revisions:
            head_revision(branches, revision)
    except CommandError:
        message = f"its schema is at {at}, which is unknown to this version"
        return problem(check, message, "a newer version made it: upgrade butlers")
    wanted = registry.targets(name for name in registry.KNOWN if settings.is_enabled(name))
    newest = {branch.head for branch in branches if f"{branch.label}@head" in wanted}
    if newest <= set(revisions):
        return ok(check, f"migrated, at {at}")
    return warning(check, f"its schema is outdated, at {at}", "the next `butlers up` migrates it")


async def _upkeep(settings: ButlerSettings, access: Access) -> list[Finding]:
    """Check the clock, replicas, jobs, backlog and open reviews of a migrated butler."""
    replicas = replicas_of(access, settings.database.replica_urls, settings.butler.name)
    database = await Database.open(access, pool_max=1, replicas=replicas)
    checks = [_clock, _replicas, _jobs]
    if settings.is_enabled("memory"):
        checks += [_unread, _review, _store]
    try:
        return [finding for check in checks async for finding in check(settings, database)]
    finally:
        await database.close()


async def _replicas(settings: ButlerSettings, database: Database) -> AsyncIterator[Finding]:
    """Check whether replicas can be read; lag shows only after some time."""
    check, known = f"replicas of {settings.butler.name}", len(settings.database.replica_urls)
    if not known:
        return
    await database.check_replicas()
    await asyncio.sleep(_LOOK_SECONDS)
    await database.check_replicas()
    troubles = database.replica_problems()
    for address, reason in troubles.items():
        remedy = "check database.replica_urls and the server; other servers are read meanwhile"
        yield warning(check, f"{address}: {reason}", remedy)
    if not troubles:
        yield ok(check, f"{known} readable")


async def _clock(settings: ButlerSettings, database: Database) -> AsyncIterator[Finding]:
    check, doubt = f"clock of {settings.butler.name}", await ClockWatch(lambda: database).look()
    if doubt is None:
        yield ok(check, "ok")
    else:
        yield warning(check, doubt, "fix the clock, or run `butlers jobs accept-clock`")


async def _jobs(settings: ButlerSettings, database: Database) -> AsyncIterator[Finding]:
    check = f"jobs of {settings.butler.name}"
    latest = await runs.find_latest(database, [*MODULE_JOBS, *settings.butler.schedule])
    remarkable = [run for run in latest.values() if run.remark and not _is_reported(run, settings)]
    for run in remarkable:
        reason = run.error or "; ".join((run.result or {}).get("warnings", []))
        yield warning(check, f"{run.job} {run.remark}: {reason}", "see `butlers jobs history`")
    if not remarkable:
        yield ok(check, "all last runs succeeded" if latest else "none has run yet")


def _is_reported(run: Run, settings: ButlerSettings) -> bool:
    """Whether another check reports why the job was skipped: the clock, or no language model."""
    is_clock = (run.error or "").startswith(DOUBTED)
    is_unread = settings.runtime.kind == "none" and run.job == "consolidate"
    return run.outcome is RunOutcome.SKIPPED and (is_clock or is_unread)


def _memory(settings: ButlerSettings, database: Database) -> Memory:
    config = settings.module("memory")
    assert isinstance(config, MemoryModuleConfig)
    return Memory(database, get_embedding_engine, settings.butler.name, config)


async def _review(settings: ButlerSettings, database: Database) -> AsyncIterator[Finding]:
    """Count what waits for a person, by kind."""
    memory, check = _memory(settings, database), f"review of {settings.butler.name}"
    counts = (await for_every_tenant(memory, "doctor", count_waiting)).done.values()
    if waiting := sum(map(Counter, counts), Counter[str]()):
        yield warning(check, f"to review: {in_words(waiting)}", "list it with `butlers inbox`")
    else:
        yield ok(check, "nothing to review")


async def _store(settings: ButlerSettings, database: Database) -> AsyncIterator[Finding]:
    """Check some of what is stored against its audit log."""
    report = await StoreCheck(_memory(settings, database), limit=SOME).run()
    check = f"store of {settings.butler.name}"
    if not report.faulty:
        yield ok(check, f"{report.checked:,} rows agree; `butlers check` reads all")
    for one in report.findings[:_SHOWN]:
        yield problem(check, one.message, one.remedy)


async def _unread(settings: ButlerSettings, database: Database) -> AsyncIterator[Finding]:
    """Warn if no model reads the episodes, or if a tenant has almost too many unread ones."""
    memory = _memory(settings, database)
    episodes = memory.settings.episodes
    counted = (await for_every_tenant(memory, "doctor", count_unread)).done
    check, state = f"unread of {settings.butler.name}", backlog(counted.values(), memory.now())
    if settings.runtime.kind != "none" or not any(unread.waiting for unread in counted.values()):
        yield ok(check, state)
    else:
        fate = "they are kept" if episodes.keep_unread else "they expire unread"
        yield warning(check, f"no model reads episodes ({state}); {fate}", _NAME_A_MODEL)
    for tenant, unread in counted.items():
        full = crowded(unread, episodes)
        if full is not None:
            yield warning(check, f"tenant {tenant}: {full}", f"{_NAME_A_MODEL}, or raise the limit")
