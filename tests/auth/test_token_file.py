"""Tokens: shown once, kept as hashes, safe among processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from butlers.auth.tokens import TokenFile
from butlers.errors import InvalidInput, NotFound, Unavailable
from interfaces.daemons import ENVIRONMENT


@pytest.fixture
def store(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "tokens.json")


def test_a_token_is_valid_for_its_butler_alone(store: TokenFile) -> None:
    record, token = store.create("general", "acme", "laptop")
    assert store.verify(token, "general") == record
    assert store.verify(token, "kitchen") is None
    assert store.verify(token + "x", "general") is None
    assert store.verify("", "general") is None
    assert store.verify("\ud800", "general") is None


def test_a_token_may_name_an_agent_and_one_made_before_agents_has_none(
    store: TokenFile, tmp_path: Path
) -> None:
    _, token = store.create("general", "acme", agent="ann")
    record = store.verify(token, "general")
    assert record is not None and record.agent == "ann"
    _, older = store.create("general", "acme")
    file = tmp_path / "tokens.json"
    kept = json.loads(file.read_text())
    del kept[1]["agent"]
    file.write_text(json.dumps(kept))
    record = store.verify(older, "general")
    assert record is not None and record.agent == ""


@pytest.mark.parametrize("agent", [" ", "a b", "a\x00", "x" * 201])
def test_an_agent_that_cannot_be_one_is_refused(store: TokenFile, agent: str) -> None:
    with pytest.raises(InvalidInput, match="agent: found"):
        store.create("general", "acme", agent=agent)
    assert store.all() == ()


def test_only_a_hash_is_kept_in_a_private_file(store: TokenFile, tmp_path: Path) -> None:
    _, token = store.create("general", "acme")
    file = tmp_path / "tokens.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert token not in file.read_text()
    assert token.removeprefix("btl_") not in file.read_text()
    store.create("general", "acme")
    assert file.stat().st_mode & 0o777 == 0o600


def test_no_two_tokens_are_alike(store: TokenFile) -> None:
    made = {store.create("general", "acme")[1] for _ in range(20)}
    assert len(made) == 20
    assert all(len(token) > 40 for token in made)


def test_a_revoked_token_is_refused_and_the_others_stay(store: TokenFile) -> None:
    first, one = store.create("general", "acme")
    second, other = store.create("general", "rival")
    assert store.revoke(first.id) == first
    assert store.verify(one, "general") is None
    assert store.verify(other, "general") == second
    with pytest.raises(NotFound, match="butlers token list"):
        store.revoke(first.id)


def test_what_another_process_does_is_seen_at_once(store: TokenFile, tmp_path: Path) -> None:
    other = TokenFile(tmp_path / "tokens.json")
    _, token = store.create("general", "acme")
    record = other.verify(token, "general")
    assert record is not None
    store.revoke(record.id)
    assert other.verify(token, "general") is None


def test_many_processes_making_tokens_lose_none(tmp_path: Path) -> None:
    make = (
        "import sys; from pathlib import Path; from butlers.auth.tokens import TokenFile\n"
        "store = TokenFile(Path(sys.argv[1]))\n"
        "for _ in range(10): store.create('general', 'acme')\n"
    )
    command = [sys.executable, "-c", make, str(tmp_path / "tokens.json")]
    running = [subprocess.Popen(command, env=ENVIRONMENT) for _ in range(4)]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0, 0]
    records = TokenFile(tmp_path / "tokens.json").all()
    assert len({record.id for record in records}) == 40


@pytest.mark.parametrize("tenant", ["", " ", "a b", "a\x00", "tab\t", "x" * 201, "\ud800"])
def test_a_tenant_that_cannot_be_one_is_refused(store: TokenFile, tenant: str) -> None:
    with pytest.raises(InvalidInput, match="tenant"):
        store.create("general", tenant)
    assert store.all() == ()


def test_a_note_is_one_line(store: TokenFile) -> None:
    with pytest.raises(InvalidInput, match="note"):
        store.create("general", "acme", "two\nlines")


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"id": 1}', '[{"id": "a"}]', "[]x", "\u20ac", '[{"digest": "é"}]']
)
def test_a_damaged_file_is_named_and_never_overwritten(
    store: TokenFile, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(text)
    with pytest.raises(Unavailable, match=r"tokens\.json is damaged; move it away"):
        store.all()
    with pytest.raises(Unavailable):
        store.create("general", "acme")
    assert store.verify("btl_any", "general") is None
    assert file.read_text() == text


def test_a_directory_that_is_missing_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="check its permissions"):
        TokenFile(tmp_path / "nowhere" / "tokens.json").create("general", "acme")


def test_what_is_shown_has_no_digest(store: TokenFile) -> None:
    record, _ = store.create("general", "acme")
    assert record.digest not in json.dumps(record.shown())
    assert record.digest not in repr(record)


@pytest.mark.parametrize("scope", ["*", "", " work", "a  b", "a\x1fb", "a\nb", "x" * 101])
def test_what_is_no_scope_limits_no_token(store: TokenFile, scope: str) -> None:
    with pytest.raises(InvalidInput, match="scope: found"):
        store.create("general", "acme", scopes=["work", scope])
    assert store.all() == ()
