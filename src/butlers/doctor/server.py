"""Checks of who listens where, and of who may call."""

from collections.abc import Iterator, Sequence

from butlers.butler import presence
from butlers.butler.home import Home
from butlers.butler.tokens import TokenStore
from butlers.doctor.finding import Finding, ok, problem, warning
from butlers.doors.server import listen
from butlers.errors import SettingsError
from butlers.files import PRIVATE
from butlers.settings.files import override_server
from butlers.settings.sections import ServerSection


def listening(home: Home, server: ServerSection) -> Iterator[Finding]:
    """The home is served and well, or nothing keeps it from being served."""
    yield _served(home) if presence.is_up(home) else _port_is_free(server)
    if _is_remote(server):
        yield warning(
            "server",
            f"{server.host} can be reached by other machines, without encryption",
            'set server.host to "127.0.0.1", or put a proxy with TLS before it',
        )


def tokens(home: Home, butlers: Sequence[str]) -> Iterator[Finding]:
    """Each butler can be called by somebody, and nobody else can read the list."""
    records = TokenStore(home.tokens_file).all()
    if not records:
        remedy = "`butlers up` makes the first; more: butlers token new --butler NAME --tenant T"
        yield warning("tokens", "there are none, so no agent can call", remedy)
        return
    mode = home.tokens_file.stat().st_mode & 0o777
    if mode & ~PRIVATE:
        file = home.tokens_file
        yield problem("tokens", f"{file} is open to others ({mode:o})", f"run: chmod 600 {file}")
    called = {record.butler for record in records}
    for name in sorted(set(butlers) - called):
        remedy = f"make one: butlers token new --butler {name} --tenant default"
        yield warning("tokens", f"no token opens butler {name}", remedy)
    for name in sorted(called - set(butlers)):
        remedy = "revoke it: butlers token list, butlers token revoke ID"
        yield warning("tokens", f"a token is for butler {name}, which is not here", remedy)
    yield ok("tokens", f"{len(records)} kept, as hashes")


def _is_remote(server: ServerSection) -> bool:
    """Whether only the permission to be reachable makes the settings valid."""
    try:
        override_server(server, {"allow_remote": False})
    except SettingsError:
        return True
    return False


def _served(home: Home) -> Finding:
    found = presence.running(home)
    if found is None:
        return warning("server", "the butlers are starting or stopping", "ask again in a moment")
    status, report = presence.health(found.url)
    if status == "ok":
        return ok("server", f"up and well at {found.url}")
    unwell = [name for name, butler in report.items() if butler["status"] != "ok"]
    told = f"unwell: {', '.join(unwell)}" if unwell else "does not answer"
    return problem("server", f"{found.url} {told}", f"see {home.log_file}")


def _port_is_free(server: ServerSection) -> Finding:
    listen(server.host, server.port).close()
    return ok("server", f"not up; port {server.port} on {server.host} is free")
