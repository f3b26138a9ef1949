"""Tokens of sessions: for one session, for its time, and kept nowhere."""

import time

import pytest

from butlers.module import Caller
from butlers.sessions.session_tokens import SessionTokens

CALLER = Caller("acme", "session:1")
URL = "http://127.0.0.1:8900/butlers/general/mcp"


@pytest.fixture
def hands() -> SessionTokens:
    served = SessionTokens()
    served.url = URL
    return served


def test_a_token_stands_for_its_session_while_that_lasts(hands: SessionTokens) -> None:
    with hands.lent(CALLER, 60) as tools:
        assert tools is not None and tools.url == URL
        assert hands.caller(tools.token) == CALLER
        assert hands.caller(tools.token + "x") is None and hands.caller("") is None
        assert tools.token not in repr(tools) + repr(vars(hands))
    assert hands.caller(tools.token) is None


def test_it_is_dead_after_a_session_that_failed_and_after_its_time(
    hands: SessionTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RuntimeError), hands.lent(CALLER, 60) as tools:
        raise RuntimeError
    assert tools is not None and hands.caller(tools.token) is None
    with hands.lent(CALLER, 60) as late:
        assert late is not None and hands.caller(late.token) == CALLER
        later = time.monotonic() + 61
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert hands.caller(late.token) is None


def test_two_sessions_have_a_token_each(hands: SessionTokens) -> None:
    other = Caller("acme", "session:2")
    with hands.lent(CALLER, 60) as one:
        with hands.lent(other, 60) as two:
            assert one is not None and two is not None
            assert (hands.caller(one.token), hands.caller(two.token)) == (CALLER, other)
        assert (hands.caller(one.token), hands.caller(two.token)) == (CALLER, None)


def test_nobody_is_handed_tools_that_are_not_served() -> None:
    with SessionTokens().lent(CALLER, 60) as tools:
        assert tools is None
