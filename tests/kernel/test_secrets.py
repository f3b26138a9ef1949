"""Secrets are recognised by their shape, and ordinary text is left alone."""

import io
import logging
import re
import time
from collections.abc import Callable

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from butlers import logs
from butlers.kernel import secrets
from butlers.kernel.secrets import MASK, masked
from butlers.llm.redaction import Redaction
from butlers.sessions.essence import of_exchange
from butlers.settings.faults import shown

KEY_BLOCK = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAAB3NzaC1\n"
SECRETS = {
    "anthropic": ("use sk-ant-api03-Zz9_yX8wV7uT6s please", "sk-ant-api03-Zz9_yX8wV7uT6s"),
    "openai": ("sk-proj-1234567890abcdef", "sk-proj-1234567890abcdef"),
    "github": ("push with ghp_16C7e42F292c6912E7710c838347Ae178B4a", "ghp_16C7e42F"),
    "github fine": ("github_pat_11ABCDEFG0123456789abcdef", "github_pat_11ABC"),
    "gitlab": ("glpat-abcdEFGH1234ijkl5678", "glpat-abcd"),
    "aws id": ("id AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    "aws key": ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI/K7MDENG"),
    "google": ("AIzaSyA1234567890abcdefghijklmnopqrstu", "AIzaSyA123"),
    "slack": ("xoxb-123456789012-abcdefABCDEF", "xoxb-123456789012"),
    "slack hook": ("https://hooks.slack.com/services/T00/B00/XXXXXXXX", "XXXXXXXX"),
    "stripe": ("sk_live_4eC39HqLyjWDarjtT1zdp7dc", "sk_live_4eC39"),
    "hugging face": ("hf_abcdefghijklmnopqrstuvwx", "hf_abcdef"),
    "npm": ("npm_abcdefghijklmnopqrstuvwxyz0123456789", "npm_abcdef"),
    "our own": ("export BUTLER_TOKEN=btl_k1B2c3D4e5F6g7H8i9J0k1L2", "btl_k1B2"),
    "jwt": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN", "dozjgNryP4"),
    "bearer": ('-H "Authorization: Bearer abcdef1234567890"', "abcdef1234567890"),
    "basic": ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA"),
    "url": ("postgres://bob:s3cr3t@db.example/x", "s3cr3t"),
    "url, any sign": ("postgres://bob:p@ss/w0rd@db.example/x", "w0rd"),
    "user of a url": ("clone https://0123456789abcdef@git.example/x", "0123456789abcdef"),
    "starred": ("Incorrect API key provided: sk-abcd****wxyz", "wxyz"),
    "short": ("connect with password=x1 now", "x1"),
    "sendgrid": ("SG.abcdefghij1234567890.abcdefghij1234567890", "SG.abcdefghij"),
    "age": ("AGE-SECRET-KEY-1" + "Q" * 45, "Q" * 45),
    "telegram": ("bot 123456789:AAabcdefghijklmnopqrstuvwxyz0123456", "AAabcdefgh"),
    "assignment": ("password = hunter22", "hunter22"),
    "quoted": ("""'api-key': 'two words here'""", "two words here"),
    "option": ("mysql -u root --password hunter22 shop", "hunter22"),
    "said": ("The password is hunter22, by the way", "hunter22"),
    "key block": (f"{KEY_BLOCK}-----END OPENSSH PRIVATE KEY-----\nand more", "b3BlbnNzaC1rZXk"),
    "cut key block": (KEY_BLOCK, "b3BlbnNzaC1rZXk"),
}
HARMLESS = [
    "Please fix the bike; the tests pass and the tyre is round.",
    "max_tokens=400 and input_tokens: 15",
    "The key idea is simple: skip the task if it is basic stuff.",
    "see https://example.com/a@b and mail bob@example.com",
    "commit 3f2a9c1d, issue sk-1, uuid 2c0097b0-63b9-4aff-974c-3f10e9e95ab6",
    "He has no secret. A token of thanks.",
    "scikit-learn is sk-learn; ssh://git@github.com/x and https://host:8080/mail?to=a@b",
]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_masked_and_counted(name: str) -> None:
    text, secret = SECRETS[name]
    found = masked(text)
    assert secret not in found.text
    assert MASK in found.text
    assert found.count == 1


def test_what_stands_around_a_secret_stays() -> None:
    assert masked("set TOKEN=abcd1234 then run").text == f"set TOKEN={MASK} then run"
    assert masked("postgres://bob:pw@db/x").text == f"postgres://bob:{MASK}@db/x"
    assert masked(f"before\n{SECRETS['key block'][0]}").text == f"before\n{MASK}\nand more"


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert masked(text).text == text
    assert masked(text).count == 0


def test_several_are_counted_each() -> None:
    text = "\n".join(text for text, _ in SECRETS.values() if "BEGIN" not in text)
    found = masked(text)
    assert found.count >= len(SECRETS) - 2
    assert not [secret for _, secret in SECRETS.values() if secret in found.text]


@given(st.text(max_size=200) | st.sampled_from([text for text, _ in SECRETS.values()]))
def test_masking_twice_changes_nothing(text: str) -> None:
    once = masked(text)
    assert masked(once.text) == type(once)(once.text, 0)


def test_hostile_text_takes_no_long_time() -> None:
    started = time.process_time()
    for piece in ("a.", "password", "sk-", "eyJ.", "://", "-----BEGIN ", "token="):
        masked(piece * (20_000 // len(piece)))
    assert time.process_time() - started < 5


def test_no_shape_is_there_for_nothing() -> None:
    """Every shape is the one that finds some secret above, so none can rot unseen."""
    everything = "\n".join(text for text, _ in SECRETS.values())
    assert [one for one in secrets._SHAPES if not re.search(one, everything)] == []


def stored(text: str) -> str:
    found = of_exchange("What did you see?", text, [])
    assert found is not None
    return found.text


def shown_of_a_program(text: str) -> str:
    return Redaction.of({}, "prompt").line(text)


def shown_of_a_setting(text: str) -> str:
    return shown(("url",), text)


def logged(text: str) -> str:
    stream = io.StringIO()
    logs.configure(stream=stream)
    try:
        structlog.get_logger("test").warning("a line", reason=text)
        logging.getLogger("library").warning("of a library: %s", text)
    finally:
        logging.getLogger().handlers.clear()
        structlog.reset_defaults()
    return stream.getvalue()


@pytest.mark.parametrize("door", [stored, shown_of_a_program, shown_of_a_setting, logged])
@pytest.mark.parametrize("name", SECRETS)
def test_whoever_masks_masks_every_kind(door: Callable[[str], str], name: str) -> None:
    text, secret = SECRETS[name]
    assert secret in text
    assert secret not in door(text)


@pytest.mark.parametrize("key", ["token", "authorization", "db_password", "api_key", "dsn"])
def test_a_secret_by_name_is_neither_logged_nor_shown(key: str) -> None:
    assert "hunter" not in str(logs.blank_secrets(None, "", {key: "hunter"}))
    assert "hunter" not in shown(("runtime", key), "hunter")
