"""Checks of the databases: that the server runs, is fit, and holds what this version expects."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from alembic.util import CommandError

from butlers.db.address import maintenance_url, without_login
from butlers.db.embedded.account import account_for
from butlers.db.embedded.binaries import binaries_for
from butlers.db.embedded.liveness import SOCKET_NAME
from butlers.db.embedded.server import EmbeddedPostgres
from butlers.db.login import RUNTIME_ROLE, login_of, signs_in
from butlers.db.migrate import WAY_OUT, current_revisions, retired_revisions
from butlers.db.postgres import Access
from butlers.db.provision import (
    can_step_down,
    check_server,
    connected,
    external_access,
)
from butlers.db.upgrade import head_revision
from butlers.doctor.finding import Finding, Severity, ok, problem, warning
from butlers.doctor.upkeep import upkeep
from butlers.errors import ButlersError
from butlers.host import registry
from butlers.host.home import Home
from butlers.settings.files import HouseSettings
from butlers.settings.names import database_name
from butlers.settings.sections import ButlerSettings

_LITTLE_BYTES = 2**30
_LONGEST_SOCKET_PATH = 99


async def databases(home: Home, house: HouseSettings) -> list[Finding]:
    """The embedded server if any butler uses it, and each butler's database."""
    embedded = [s for s in house.butlers.values() if not s.database.url]
    external = [s for s in house.butlers.values() if s.database.url]
    findings = await _embedded(home, embedded) if embedded or not external else []
    for settings in external:
        findings += await _external(settings)
    return findings


async def _embedded(home: Home, butlers: Sequence[ButlerSettings]) -> list[Finding]:
    server = EmbeddedPostgres(home.database_directory)
    data = server.data_directory
    major = await asyncio.to_thread(lambda: binaries_for(account_for(data)).major)
    findings = list(_socket(data.parent))
    if not data.exists():
        told = f"PostgreSQL {major} is installed; `butlers up` sets it up"
        return [ok("database", told), *findings]
    async with _started(server):
        findings += [ok("database", f"PostgreSQL {major} runs in {data}"), *_room(data)]
        for settings in butlers:
            database = database_name(settings.butler.name)
            access = Access(server.dsn(database), server.dsn(database, login_of(database)))
            findings += await _schema(settings, server.dsn(), access)
    return findings


@asynccontextmanager
async def _started(server: EmbeddedPostgres) -> AsyncIterator[None]:
    """Joined where it runs; started and stopped again where it does not."""
    await asyncio.to_thread(server.start)
    try:
        yield
    finally:
        await asyncio.to_thread(server.stop)


def _socket(place: Path) -> Iterator[Finding]:
    if len(str(place / "run" / SOCKET_NAME)) > _LONGEST_SOCKET_PATH:
        yield ok("database", f"{place} is too long for a socket, which goes to a shorter path")


def _room(data: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(data).free
    if free < _LITTLE_BYTES:
        told = f"{free / 2**30:.1f} GiB free under {data}"
        yield warning("database", told, "free some space before the database runs out of it")


async def _external(settings: ButlerSettings) -> list[Finding]:
    """A server of one's own; its address is shown, never its user's password."""
    check, url = f"database of {settings.butler.name}", settings.database.url
    where = without_login(url)
    try:
        async with connected(maintenance_url(url)) as connection:
            await check_server(connection)
            role = await can_step_down(connection)
            version = connection.get_server_version()
    except ButlersError as error:
        return [problem(check, f"{where}: {error}", "check database.url and that server")]
    fit = ok(check, f"PostgreSQL {version.major}.{version.minor} with pgvector at {where}")
    access = external_access(url, database_name(settings.butler.name))
    schema = await _schema(settings, maintenance_url(url), access)
    if not role:
        return [fit, _roleless(check), *schema]
    lodged = [one async for one in _lodged(check, settings, access)] if len(schema) > 1 else []
    return [fit, *lodged, *schema]


async def _lodged(check: str, settings: ButlerSettings, access: Access) -> AsyncIterator[Finding]:
    """Whether requests sign in by a login of their own, which can become nobody else."""
    database = database_name(settings.butler.name)
    if not await signs_in(access, database):
        yield warning(
            check,
            f"it has no login of its own, {login_of(database)}: its requests step down from that "
            "of database.url, and a statement that was slipped in could step up again",
            "let that login create roles (CREATEROLE) and sign in with a password, and start anew",
        )


def _roleless(check: str) -> Finding:
    remedy = (
        f"`butlers up` makes it if it may; else, as a superuser: CREATE ROLE {RUNTIME_ROLE}; "
        f"GRANT {RUNTIME_ROLE} TO the user of database.url"
    )
    return warning(check, f"the role {RUNTIME_ROLE} is missing or not ours to use", remedy)


async def _schema(settings: ButlerSettings, maintenance: str, access: Access) -> list[Finding]:
    """The butler's database is there and at the newest revision; then, what it does by itself."""
    name = settings.butler.name
    check, database = f"database of {name}", database_name(name)
    async with connected(maintenance) as connection:
        if not await connection.fetchval("select 1 from pg_database where datname = $1", database):
            return [ok(check, f"{database} is not there yet; `butlers up` makes it")]
    migrated = _migrated(check, settings, await current_revisions(access.owner_dsn))
    if migrated.verdict is not Severity.OK:
        return [migrated]
    return [migrated, *await upkeep(settings, access)]


def _migrated(check: str, settings: ButlerSettings, found: Sequence[str]) -> Finding:
    branches = registry.branches()
    if too_old := retired_revisions(branches, found):
        return problem(check, f"it stands at {', '.join(too_old)}, which is too old", WAY_OUT)
    try:
        for revision in found:
            head_revision(branches, revision)
    except CommandError:
        told = f"it stands at {', '.join(found)}, which this version does not know"
        return problem(check, told, "a newer version made it: upgrade butlers")
    wanted = registry.targets(name for name in registry.KNOWN if settings.is_enabled(name))
    newest = {branch.head for branch in branches if f"{branch.label}@head" in wanted}
    if not newest <= set(found):
        told = f"it stands at {', '.join(found) or 'no revision'}"
        return warning(check, told, "the next `butlers up` migrates it")
    return ok(check, f"migrated, at {', '.join(found)}")
