"""Tokens of sessions: for one session, for its time, and kept nowhere."""

import time

import pytest

from butlers.auth.rights import Caller
from butlers.auth.tokens import SessionTokens

CALLER = Caller("acme", "session:1")
URL = "http://127.0.0.1:8900/butlers/general/mcp"


@pytest.fixture
def tokens() -> SessionTokens:
    served = SessionTokens()
    served.url = URL
    return served


def test_a_token_stands_for_its_session_while_that_lasts(tokens: SessionTokens) -> None:
    with tokens.lent(CALLER, 60) as tools:
        assert tools is not None and tools.url == URL
        assert tokens.caller(tools.token) == CALLER
        assert tokens.caller(tools.token + "x") is None and tokens.caller("") is None
        assert tools.token not in repr(tools) + repr(vars(tokens))
    assert tokens.caller(tools.token) is None


def test_it_is_dead_after_a_session_that_failed_and_after_its_time(
    tokens: SessionTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RuntimeError), tokens.lent(CALLER, 60) as tools:
        raise RuntimeError
    assert tools is not None and tokens.caller(tools.token) is None
    with tokens.lent(CALLER, 60) as late:
        assert late is not None and tokens.caller(late.token) == CALLER
        later = time.monotonic() + 61
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert tokens.caller(late.token) is None


def test_two_sessions_have_a_token_each(tokens: SessionTokens) -> None:
    other = Caller("acme", "session:2")
    with tokens.lent(CALLER, 60) as one:
        with tokens.lent(other, 60) as two:
            assert one is not None and two is not None
            assert (tokens.caller(one.token), tokens.caller(two.token)) == (CALLER, other)
        assert (tokens.caller(one.token), tokens.caller(two.token)) == (CALLER, None)


def test_nobody_is_handed_tools_that_are_not_served() -> None:
    with SessionTokens().lent(CALLER, 60) as tools:
        assert tools is None
