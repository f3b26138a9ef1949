"""The settings of a whole home: what holds for all its butlers, and who wins."""

from pathlib import Path

import pytest

from butlers import __version__
from butlers.errors import SettingsError
from butlers.host.home import Home
from butlers.settings.files import load_house


def butler_file(home: Path, name: str, text: str = "") -> Path:
    file = home / "butlers" / name / "butler.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text, "utf-8")
    return file


def house(home: Path):
    files = sorted(home.glob("butlers/*/butler.toml"))
    return load_house(home / "butlers.toml", files)


def test_what_concerns_all_butlers_is_for_the_home_to_say(tmp_path):
    (tmp_path / "butlers.toml").write_text('[database]\nmemory = "2GB"\nurl = "postgresql://db"\n')
    butler_file(tmp_path, "alfred")
    butler_file(tmp_path, "jeeves", '[database]\nmemory = "4GB"\n')
    found = house(tmp_path)
    assert found.butlers["alfred"].database.url == "postgresql://db"
    (fault,) = found.failed["jeeves"].faults
    assert "database.memory" in fault
    for wrong in ('"lots"', '"0GB"', "512", '"512mb"', '"-1GB"'):
        (tmp_path / "butlers.toml").write_text(f"[database]\nmemory = {wrong}\n")
        with pytest.raises(SettingsError, match="database.memory: found"):
            house(tmp_path)


def test_the_home_gives_every_butler_its_database(tmp_path):
    home = {"url": "postgresql://home", "replica_urls": ("postgresql://copy",)}
    (tmp_path / "butlers.toml").write_text(
        '[database]\nurl = "postgresql://home"\nreplica_urls = ["postgresql://copy"]\n'
    )
    butler_file(tmp_path, "alfred", '[database]\nurl = "postgresql://own"\n')
    butler_file(tmp_path, "jeeves")
    butlers = house(tmp_path).butlers
    assert list(butlers) == ["alfred", "jeeves"]
    assert butlers["alfred"].database.model_dump() == {**home, "url": "postgresql://own"}
    assert butlers["jeeves"].database.model_dump() == home


def test_the_home_wins_over_the_server_of_its_butlers(tmp_path):
    (tmp_path / "butlers.toml").write_text("[server]\nport = 1000\n")
    butler_file(tmp_path, "alfred", "[server]\nport = 2000\nlog_level = 'debug'\n")
    butler_file(tmp_path, "jeeves", "[server]\nport = 3000\nlog_level = 'debug'\n")
    server = house(tmp_path).server
    assert (server.port, server.log_level, server.host) == (1000, "debug", "127.0.0.1")


def test_butlers_that_disagree_on_the_server_are_told_apart(tmp_path):
    alfred = butler_file(tmp_path, "alfred", "[server]\nport = 2000\n")
    jeeves = butler_file(tmp_path, "jeeves", "[server]\nport = 3000\n")
    found = house(tmp_path)
    assert found.failed["jeeves"].faults == (
        f"{jeeves}: server.port: found 3000; {alfred} says 2000: "
        f"set it in {tmp_path / 'butlers.toml'} instead",
    )
    assert (list(found.butlers), found.server.port) == (["alfred"], 2000)


def test_a_home_that_forbids_it_keeps_its_butlers_local(tmp_path):
    (tmp_path / "butlers.toml").write_text("[server]\nallow_remote = false\n")
    butler_file(tmp_path, "alfred", "[server]\nhost = '0.0.0.0'\nallow_remote = true\n")
    with pytest.raises(SettingsError, match=r"server\.host: found \"0\.0\.0\.0\""):
        house(tmp_path)


def test_the_faults_of_all_butlers_are_told_at_once(tmp_path):
    alfred = butler_file(tmp_path, "alfred", "[server]\nport = -1\n")
    jeeves = butler_file(tmp_path, "jeeves", "not toml")
    with pytest.raises(SettingsError) as caught:
        house(tmp_path)
    first, second = caught.value.faults
    assert first.startswith(f"{alfred}: server.port: ")
    assert second.startswith(f"{jeeves}:1: ")


def test_a_butler_whose_file_is_wrong_leaves_the_rest(tmp_path):
    butler_file(tmp_path, "alfred", "[server]\nport = 2000\n[database]\nurl = 0\n")
    butler_file(tmp_path, "jeeves")
    found = house(tmp_path)
    assert (list(found.butlers), list(found.failed)) == (["jeeves"], ["alfred"])
    assert found.server.port == 8900


def test_a_fault_in_the_file_of_the_home_names_that_file(tmp_path):
    home_file = tmp_path / "butlers.toml"
    home_file.write_text("[runtime]\nkind = 'none'\n")
    with pytest.raises(SettingsError) as caught:
        house(tmp_path)
    line = f"{home_file}: runtime: found an unknown key; valid keys are "
    line += "database, server, fleet, sessions, backup"
    assert caught.value.faults == (line,)


REMOTE = 'url = "https://far:8900/api/butlers/general", token_env = "FAR_TOKEN"'


def test_the_fleet_names_butlers_of_other_homes(tmp_path):
    (tmp_path / "butlers.toml").write_text(f'[fleet]\nremotes = [{{ name = "far", {REMOTE} }}]\n')
    butler_file(tmp_path, "alfred")
    fleet = house(tmp_path).fleet
    (remote,) = fleet.remotes
    assert (remote.name, remote.url) == ("far", "https://far:8900/api/butlers/general")
    assert (remote.token_env, remote.tenant) == ("FAR_TOKEN", "")


@pytest.mark.parametrize(
    ("remotes", "fault"),
    [
        ('{ name = "far" }', "fleet.remotes.0.url: found nothing; valid is the URL of a butler's"),
        (
            '{ name = "far", url = "https://far", token_env = "T" }',
            'fleet.remotes.0.url: found "https://far"; valid is the URL of a butler\'s API',
        ),
        (
            '{ name = "far", url = "http://u:p@far/api/butlers/x", token_env = "T" }',
            'fleet.remotes.0.url: found "http://u:***@far/api/butlers/x"',
        ),
        (
            '{ name = "far", url = "http://far/api/butlers/x", token_env = "btl_x-1" }',
            'fleet.remotes.0.token_env: found "btl_x-1"; valid is the name of an environment',
        ),
        (
            f'{{ name = "alfred", {REMOTE} }}',
            'fleet.remotes.0.name: found "alfred"; must not be the name of a butler of this home',
        ),
        (
            f'{{ name = "far", {REMOTE} }}, {{ name = "far", {REMOTE} }}',
            'fleet.remotes.1.name: found "far"; must be one that no other remote has',
        ),
        (f'{{ name = "Far!", {REMOTE} }}', 'fleet.remotes.0.name: found "Far!"'),
    ],
)
def test_a_fleet_that_cannot_be_is_refused_by_its_key(tmp_path, remotes, fault):
    (tmp_path / "butlers.toml").write_text(f"[fleet]\nremotes = [{remotes}]\n")
    butler_file(tmp_path, "alfred")
    with pytest.raises(SettingsError) as refusal:
        house(tmp_path)
    assert fault in str(refusal.value)


@pytest.mark.parametrize("place", ["home", "butler"])
def test_a_home_of_a_newer_version_says_that_it_needs_a_newer_butlers(tmp_path, place):
    """Not only that a key is unknown, which reads like a slip of the pen."""
    (tmp_path / "butlers.toml").write_text("[later]\non = true\n" if place == "home" else "")
    butler_file(tmp_path, "alfred", "[later]\non = true\n" if place == "butler" else "")
    needs = f"{tmp_path}: was last used by butlers 9.1.0, and this is butlers {__version__}; "
    for written, is_newer in (("9.1.0\n", True), ("0.0.9", False), ("what", False)):
        (tmp_path / "version").write_text(written)
        with pytest.raises(SettingsError, match="later: found an unknown key") as refusal:
            house(tmp_path)
        assert str(refusal.value).startswith(needs + "install 9.1.0 or newer") is is_newer


def test_a_home_remembers_the_newest_version_that_used_it(tmp_path):
    home = Home(tmp_path / "home")
    for _ in range(2):
        home.create()
        assert home.version_file.read_text() == f"{__version__}\n"
    home.version_file.write_text("9.1.0\n")
    home.create()
    assert home.version_file.read_text() == "9.1.0\n"


def test_a_butler_file_has_no_fleet(tmp_path):
    butler_file(tmp_path, "alfred", "[fleet]\nremotes = []\n")
    with pytest.raises(SettingsError, match="fleet: found an unknown key"):
        house(tmp_path)
