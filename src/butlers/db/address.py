"""Read and change database URLs, which may name several hosts, one of them the primary."""

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

_PORT = 5432
_HOST = re.compile(r"(?:\[(?P<inner>[^\]]+)\]|(?P<name>[^:\[\]]+))(?::(?P<port>[0-9]+))?")
_WHICH, _PRIMARY = "target_session_attrs", "read-write"


def of_database(url: str, database: str) -> str:
    """Return the URL of a database at the same server; of several hosts, at the primary."""
    parts = urlsplit(url)
    query = parts.query
    if len(hosts_of(url)) > 1 and _WHICH not in dict(parse_qsl(query)):
        query = f"{query}&{_WHICH}={_PRIMARY}".lstrip("&")
    return urlunsplit(parts._replace(path=f"/{quote(database)}", query=query))


def maintenance_url(url: str) -> str:
    """Return the URL of the database to use while the butler's own may not exist."""
    return of_database(url, database_of(url))


def database_of(url: str) -> str:
    """Return the database of a URL, or `postgres`."""
    return unquote(urlsplit(url).path.strip("/")) or "postgres"


def signed_in(url: str, user: str, password: str) -> str:
    """Return a URL with another login."""
    return _with_login(url, f"{quote(user)}:{password}")


def signed_in_like(url: str, other: str) -> str:
    """Return a URL with the login of another."""
    return _with_login(url, urlsplit(other).netloc.rpartition("@")[0])


def at(url: str, host: str, port: int, database: str) -> str:
    """Return the URL of a database at another host, with the same login."""
    parts = urlsplit(of_database(url, database))
    login, _, _ = parts.netloc.rpartition("@")
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return urlunsplit(parts._replace(netloc=f"{login}@{where}" if login else where))


def without_password(url: str) -> tuple[str, str | None]:
    """Return a URL without its password, and the password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url, None
    return _with_login(url, parts.netloc.partition(":")[0]), unquote(parts.password)


def without_login(url: str) -> str:
    """Return the hosts of a URL, for display."""
    hosts = [f"{host}:{port}" if host[:1] not in "/" else "" for host, port in hosts_of(url)]
    return ", ".join(host or "a local socket" for host in hosts)


def is_address(url: str) -> bool:
    """Return whether each host of a URL has a name and a valid port."""
    try:
        return bool(urlsplit(url).netloc) and all(0 < port < 65_536 for _, port in hosts_of(url))
    except ValueError:
        return False


def _with_login(url: str, login: str) -> str:
    parts = urlsplit(url)
    where = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{login}@{where}"))


def hosts_of(url: str) -> list[tuple[str, int]]:
    """Return each host and port, from the netloc or the query; "" is the driver's default."""
    parts = urlsplit(url)
    named = parts.netloc.rpartition("@")[2]
    if named:
        return [_host(host) for host in named.split(",")]
    query = dict(parse_qsl(parts.query))
    return list(_listed(query.get("host", "").split(","), query.get("port", "").split(",")))


def _listed(hosts: list[str], ports: list[str]) -> Iterator[tuple[str, int]]:
    for host, port in zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True):
        yield host, int(port or _PORT)


def _host(text: str) -> tuple[str, int]:
    """Parse `host:port`; an IPv6 address has brackets."""
    match = _HOST.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is no host")
    return unquote(match["inner"] or match["name"]), int(match["port"] or _PORT)
