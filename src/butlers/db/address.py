"""Addresses of servers: a URL may name several hosts, one of which is the primary at a time."""

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

_PORT = 5432
_HOST = re.compile(r"(?:\[(?P<inner>[^\]]+)\]|(?P<name>[^:\[\]]+))(?::(?P<port>[0-9]+))?")
_WHICH, _PRIMARY = "target_session_attrs", "read-write"


def of_database(url: str, database: str) -> str:
    """How a database is reached at the server of a URL; of several hosts, at the primary."""
    parts = urlsplit(url)
    query = parts.query
    if len(hosts_of(url)) > 1 and _WHICH not in dict(parse_qsl(query)):
        query = f"{query}&{_WHICH}={_PRIMARY}".lstrip("&")
    return urlunsplit(parts._replace(path=f"/{quote(database)}", query=query))


def maintenance_url(url: str) -> str:
    """The database to sign in to while the butler's own may not exist yet."""
    return of_database(url, database_of(url))


def database_of(url: str) -> str:
    """The database that a URL names, or the one that every server has."""
    return unquote(urlsplit(url).path.strip("/")) or "postgres"


def signed_in(url: str, user: str, password: str) -> str:
    """The same place, by another login."""
    return _with_login(url, f"{quote(user)}:{password}")


def signed_in_like(url: str, other: str) -> str:
    """The place of one URL, by the login of another."""
    return _with_login(url, urlsplit(other).netloc.rpartition("@")[0])


def at(url: str, host: str, port: int, database: str) -> str:
    """How a database is reached at another place, by the same login."""
    parts = urlsplit(of_database(url, database))
    login, _, _ = parts.netloc.rpartition("@")
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return urlunsplit(parts._replace(netloc=f"{login}@{where}" if login else where))


def without_password(url: str) -> tuple[str, str | None]:
    """A URL that anybody may read, and the password it had."""
    parts = urlsplit(url)
    if parts.password is None:
        return url, None
    return _with_login(url, parts.netloc.partition(":")[0]), unquote(parts.password)


def without_login(url: str) -> str:
    """Where a URL leads; no login is told."""
    places = [f"{host}:{port}" if host[:1] not in "/" else "" for host, port in hosts_of(url)]
    return ", ".join(place or "a local socket" for place in places)


def is_address(url: str) -> bool:
    """Whether a URL says where: each host has a name, and a port that can be."""
    try:
        return bool(urlsplit(url).netloc) and all(0 < port < 65_536 for _, port in hosts_of(url))
    except ValueError:
        return False


def _with_login(url: str, login: str) -> str:
    parts = urlsplit(url)
    where = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{login}@{where}"))


def hosts_of(url: str) -> list[tuple[str, int]]:
    """Each host and its port, wherever in the URL they stand; "" is wherever the driver looks."""
    parts = urlsplit(url)
    named = parts.netloc.rpartition("@")[2]
    if named:
        return [_host(one) for one in named.split(",")]
    query = dict(parse_qsl(parts.query))
    return list(_listed(query.get("host", "").split(","), query.get("port", "").split(",")))


def _listed(hosts: list[str], ports: list[str]) -> Iterator[tuple[str, int]]:
    for host, port in zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True):
        yield host, int(port or _PORT)


def _host(text: str) -> tuple[str, int]:
    """A host as it stands before the path of a URL; an address of IPv6 has brackets."""
    found = _HOST.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no host")
    return unquote(found["inner"] or found["name"]), int(found["port"] or _PORT)
