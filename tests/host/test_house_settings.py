"""The settings of a whole home: what holds for all its butlers, and who wins."""

from pathlib import Path

import pytest

from butlers.errors import SettingsError
from butlers.host.settings_files import load_house


def butler_file(home: Path, name: str, text: str = "") -> Path:
    file = home / "butlers" / name / "butler.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text, "utf-8")
    return file


def house(home: Path):
    files = sorted(home.glob("butlers/*/butler.toml"))
    return load_house(home / "butlers.toml", files)


def test_the_home_gives_every_butler_its_database(tmp_path):
    (tmp_path / "butlers.toml").write_text("[database]\npool_max = 4\npool_min = 2\n")
    butler_file(tmp_path, "alfred", "[database]\npool_min = 3\n")
    butler_file(tmp_path, "jeeves")
    butlers = house(tmp_path).butlers
    assert list(butlers) == ["alfred", "jeeves"]
    assert (butlers["alfred"].database.pool_min, butlers["alfred"].database.pool_max) == (3, 4)
    assert (butlers["jeeves"].database.pool_min, butlers["jeeves"].database.pool_max) == (2, 4)


def test_the_home_wins_over_the_server_of_its_butlers(tmp_path):
    (tmp_path / "butlers.toml").write_text("[server]\nport = 1000\n")
    butler_file(tmp_path, "alfred", "[server]\nport = 2000\nlog_level = 'debug'\n")
    butler_file(tmp_path, "jeeves", "[server]\nport = 3000\nlog_level = 'debug'\n")
    server = house(tmp_path).server
    assert (server.port, server.log_level, server.host) == (1000, "debug", "127.0.0.1")


def test_butlers_that_disagree_on_the_server_are_told_apart(tmp_path):
    alfred = butler_file(tmp_path, "alfred", "[server]\nport = 2000\n")
    jeeves = butler_file(tmp_path, "jeeves", "[server]\nport = 3000\n")
    with pytest.raises(SettingsError) as caught:
        house(tmp_path)
    assert caught.value.faults == (
        f"{jeeves}: server.port: found 3000; {alfred} says 2000: "
        f"set it in {tmp_path / 'butlers.toml'} instead",
    )


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


def test_a_fault_in_the_file_of_the_home_names_that_file(tmp_path):
    home_file = tmp_path / "butlers.toml"
    home_file.write_text("[runtime]\nkind = 'none'\n")
    with pytest.raises(SettingsError) as caught:
        house(tmp_path)
    line = f"{home_file}: runtime: found an unknown key; valid keys are database, server"
    assert caught.value.faults == (line,)
