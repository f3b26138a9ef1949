"""The home directory: where it is, how it begins, and that two processes do not clash in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from butlers.errors import Conflict, InvalidInput, Unavailable
from butlers.host.home import Home
from butlers.settings.files import load_butler
from butlers.settings.names import RESERVED_NAMES, database_name, validate_name


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home")


def test_the_home_asked_for_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("BUTLERS_HOME", str(tmp_path / "variable"))
    assert Home.locate(tmp_path / "asked").root == tmp_path / "asked"
    assert Home.locate().root == tmp_path / "variable"


@pytest.mark.parametrize("variable", [None, ""])
def test_the_home_is_otherwise_in_the_users_own(monkeypatch, tmp_path, variable):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("BUTLERS_HOME", raising=False)
    if variable is not None:
        monkeypatch.setenv("BUTLERS_HOME", variable)
    assert Home.locate().root == tmp_path / ".butlers"


def test_the_home_is_absolute_and_without_tilde(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert Home.locate(Path("~/mine")).root == tmp_path / "mine"
    assert Home.locate(Path("here/../there")).root == tmp_path / "there"


def test_a_home_of_nobody_is_told():
    with pytest.raises(Unavailable, match="set BUTLERS_HOME to a full path"):
        Home.locate(Path("~no_such_user_here/butlers"))


def test_everything_lies_in_the_home(home):
    root = home.root
    assert home.database_directory == root / "postgres"
    assert home.tokens_file == root / "tokens.json"
    assert home.logs_directory == root / "logs"
    assert home.run_file == root / "run.json"
    assert home.lock_file.parent == root
    assert home.butler_file("general") == root / "butlers" / "general" / "butler.toml"


def test_a_new_home_is_private(home):
    old = os.umask(0)
    try:
        home.create_butler("general")
    finally:
        os.umask(old)
    directories = [home.root, home.butlers_directory, home.logs_directory]
    for directory in [*directories, home.butler_directory("general")]:
        assert directory.stat().st_mode & 0o777 == 0o700
    for file in (home.settings_file, home.butler_file("general")):
        assert file.stat().st_mode & 0o777 == 0o600


def test_creating_a_home_again_changes_nothing(home):
    home.create()
    home.settings_file.write_text("[server]\nport = 1\n")
    home.create()
    assert home.settings_file.read_text() == "[server]\nport = 1\n"


def test_an_empty_home_gets_one_butler(home):
    assert home.butler_names() == []
    assert home.ensure_general()
    assert home.butler_names() == ["general"]
    assert not home.ensure_general()
    assert load_butler(home.butler_file("general")).butler.name == "general"


def test_a_home_with_a_butler_gets_no_other(home):
    home.create_butler("jeeves")
    assert not home.ensure_general()
    assert home.butler_names() == ["jeeves"]


def test_butlers_are_listed_by_name(home):
    for name in ("jeeves", "alfred", "b2"):
        home.create_butler(name)
    (home.butlers_directory / "empty").mkdir()
    (home.butlers_directory / "notes.txt").write_text("")
    assert home.butler_names() == ["alfred", "b2", "jeeves"]


def test_a_butler_is_created_once(home):
    file = home.create_butler("jeeves", "Valet")
    file.write_text("mine")
    with pytest.raises(Conflict, match="butler 'jeeves' exists already"):
        home.create_butler("jeeves")
    assert file.read_text() == "mine"
    assert list(file.parent.iterdir()) == [file]


CREATE = """
import sys
from pathlib import Path
from butlers.errors import Conflict
from butlers.host.home import Home
home = Home(Path(sys.argv[1]))
sys.stdin.readline()
try:
    home.create_butler("jeeves", sys.argv[2])
    sys.stdout.write(sys.argv[2])
except Conflict:
    pass
"""


def test_of_processes_that_create_one_butler_at_once_one_succeeds(home):
    command = [sys.executable, "-c", CREATE, str(home.root)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racers = [subprocess.Popen([*command, f"number {n}"], **pipes) for n in range(3)]
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [racer.communicate(timeout=60)[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0, 0]
    (winner,) = filter(None, said)
    assert load_butler(home.butler_file("jeeves")).butler.description == winner


@pytest.mark.parametrize("name", ["a", "general", "b2", "my_butler", "x" * 40])
def test_valid_names(name):
    assert validate_name(name) == name
    assert database_name(name) == f"butler_{name}"
    assert len(database_name(name)) <= 63


@pytest.mark.parametrize(
    "name",
    ["", "2b", "_x", "My", "a-b", "a b", "a/b", "..", "a\n", "é", "a²", "x" * 41, "a;drop"],
)
def test_names_that_are_refused(home, name):
    with pytest.raises(InvalidInput, match="valid is a name of at most 40"):
        validate_name(name)
    with pytest.raises(InvalidInput):
        home.create_butler(name)
    assert not home.root.exists()


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_reserved_names_are_refused(name):
    with pytest.raises(InvalidInput):
        validate_name(name)


def test_a_file_in_place_of_the_home_is_told(home):
    home.root.write_text("")
    with pytest.raises(Unavailable, match=r"choose another home with --home or BUTLERS_HOME"):
        home.create()


def test_a_home_below_a_file_is_told(home):
    home.root.write_text("")
    with pytest.raises(Unavailable, match="Not a directory"):
        Home(home.root / "below").create_butler("jeeves")


@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="needs a file system that takes no files"
)
def test_a_home_where_nothing_can_be_written_is_told():
    with pytest.raises(Unavailable, match="cannot write /proc/butlers"):
        Home(Path("/proc/butlers")).create()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_read_only_home_is_told(home):
    home.create()
    home.butlers_directory.chmod(0o500)
    try:
        with pytest.raises(Unavailable, match="Permission denied"):
            home.create_butler("jeeves")
    finally:
        home.butlers_directory.chmod(0o700)
