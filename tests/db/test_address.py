"""A URL that names several hosts is understood wherever a URL is read."""

import pytest

from butlers.db import address
from butlers.db.provision import external_access

PAIR = "postgresql://me:p%40ss@one:5433,two/postgres"


def test_of_several_hosts_the_primary_is_asked_for_unless_the_url_says_otherwise():
    dsn = external_access(PAIR, "butler_x").owner_dsn
    assert dsn == "postgresql://me:p%40ss@one:5433,two/butler_x?target_session_attrs=read-write"
    said = f"{PAIR}?target_session_attrs=primary&sslmode=require"
    assert address.of_database(said, "x") == said.replace("/postgres?", "/x?")
    assert address.of_database("postgresql://me@one/y", "x") == "postgresql://me@one/x"


def test_a_database_to_sign_in_to_is_the_one_named_or_that_of_the_server():
    which = "?target_session_attrs=read-write"
    assert address.maintenance_url(PAIR) == f"{PAIR}{which}"
    assert address.maintenance_url("postgresql://a,b") == f"postgresql://a,b/postgres{which}"


def test_a_login_is_changed_and_a_password_taken_out_for_all_hosts():
    assert address.signed_in(PAIR, "x y", "pw") == "postgresql://x%20y:pw@one:5433,two/postgres"
    other = "postgresql://you:secret@elsewhere/y"
    assert address.signed_in_like(PAIR, other) == "postgresql://you:secret@one:5433,two/postgres"
    bare = "postgresql://me@one:5433,two/postgres"
    assert address.without_password(PAIR) == (bare, "p@ss")
    assert address.without_password(bare) == (bare, None)


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        (PAIR, [("one", 5433), ("two", 5432)]),
        ("postgresql://me@[::1]:6000,[fe80::2]/x", [("::1", 6000), ("fe80::2", 5432)]),
        ("postgresql://me@/x?host=/run/a,/run/B&port=1,2", [("/run/a", 1), ("/run/B", 2)]),
        ("postgresql://me@/x?host=a,b&port=7", [("a", 7), ("b", 7)]),
        ("postgresql://me@%2Frun%2FPg/x", [("/run/Pg", 5432)]),
        ("postgresql://me@/x", [("", 5432)]),
    ],
)
def test_hosts_are_found_wherever_they_stand(url, hosts):
    assert address.hosts_of(url) == hosts
    assert address.is_address(url)


def test_places_are_told_without_a_login():
    assert address.without_login(PAIR) == "one:5433, two:5432"
    assert address.without_login("postgresql://me:pw@/x?host=/run/a") == "a local socket"


@pytest.mark.parametrize(
    "url", ["postgresql://a:b:c/x", "postgresql://a,/x", "postgresql://a:0/x", "postgresql:///x",
            "postgresql://me@/x?host=a,b,c&port=1,2", "postgresql://a:99999,b/x"]
)  # fmt: skip
def test_what_is_no_address_is_recognised(url):
    assert not address.is_address(url)
