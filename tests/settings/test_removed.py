"""Keys of the last version that are no longer settings are accepted, with a warning."""

from pathlib import Path

import pytest

from butlers.settings.files import HouseSettings, load_house
from butlers.settings.removed import REMOVED
from butlers.settings.sections import ButlerSettings, HomeSettings

ALL_KEYS = sorted(REMOVED)


def read(home: Path, text: str, *, home_text: str = "") -> HouseSettings:
    file = home / "butlers" / "general" / "butler.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text, "utf-8")
    (home / "butlers.toml").write_text(home_text, "utf-8")
    return load_house(home / "butlers.toml", [file])


def is_setting(key: str) -> bool:
    """Whether the key is one in either file."""

    def has(model, path):
        field = model.model_fields.get(path[0])
        return field is not None and (len(path) == 1 or has(field.annotation, path[1:]))

    return any(has(model, key.split(".")) for model in (ButlerSettings, HomeSettings))


@pytest.mark.parametrize("key", ALL_KEYS)
def test_a_removed_key_changes_nothing_but_is_named(tmp_path, key):
    assert not is_setting(key)
    table, _, name = key.rpartition(".")
    value = "'x'" if name == "binary" else "7"
    text = f"[{table}]\n{name} = {value}\n"
    of_home = key.startswith(("fleet.", "sessions."))
    found = read(tmp_path, "" if of_home else text, home_text=text if of_home else "")
    assert found.failed == {}
    (line,) = found.removed
    assert f"{'butlers' if of_home else 'butler'}.toml: {key}: no longer a setting; " in line
    kept = found.butlers["general"]
    if key != "runtime.binary":
        assert kept == ButlerSettings.model_validate({"butler": {"name": "general"}})


def test_the_line_says_what_to_do(tmp_path):
    found = read(tmp_path, "[server]\nsend_seconds = 5\nport = 8901\n")
    assert found.removed == [
        f"{tmp_path}/butlers/general/butler.toml: server.send_seconds: "
        "no longer a setting; remove it"
    ]
    assert found.server.port == 8901


def test_the_path_of_a_program_still_counts_under_its_old_name(tmp_path):
    found = read(tmp_path, "[runtime]\nkind = 'claude'\nbinary = '/opt/claude'\n")
    assert found.butlers["general"].runtime.command == ("/opt/claude",)
    (line,) = found.removed
    assert line.endswith("it is used as runtime.command = [PATH], write that instead")


def test_an_unknown_key_beside_it_is_refused_all_the_same(tmp_path):
    text = "[server]\nsend_seconds = 5\nsend_secnods = 5\n"
    with pytest.raises(Exception, match=r"server\.send_secnods: found an unknown key"):
        read(tmp_path, text)


# The tables of the files that the last version wrote at its first start; every key was a comment.
BUTLER_TABLES = (
    "[butler] [butler.schedule] [modules.memory] [modules.memory.episodes] "
    "[modules.memory.retention] [modules.memory.facts] [modules.memory.rules] "
    "[modules.memory.retrieval] [modules.memory.context] [modules.memory.consolidation] "
    "[modules.memory.statements] [modules.memory.quarantine] [modules.memory.schedule] "
    "[modules.notebook] [modules.notebook.schedule] [database] [runtime] [mcp] [server] "
)
HOME_TABLES = "[database] [server] [fleet] [sessions] [backup]"


def test_the_first_files_of_the_last_version_are_still_read(tmp_path):
    text, home_text = ("\n".join(tables.split()) for tables in (BUTLER_TABLES, HOME_TABLES))
    found = read(
        tmp_path, text.replace("[butler]", '[butler]\nname = "general"'), home_text=home_text
    )
    assert found.failed == {}
    assert list(found.butlers) == ["general"]
