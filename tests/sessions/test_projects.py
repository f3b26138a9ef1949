"""Which project a directory belongs to, with real repositories."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from butlers.sessions import projects
from butlers.sessions.projects import identify

REMOTE = "https://github.com/Shop/api.git"


def git(*arguments: str, cwd: Path) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *who, *arguments], cwd=cwd, check=True, capture_output=True)


def repository(place: Path, remote: str = "") -> Path:
    place.mkdir(parents=True)
    git("init", "-q", cwd=place)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=place)
    if remote:
        git("remote", "add", "origin", remote, cwd=place)
    return place


def one(*places: Path) -> bool:
    """Whether all are one project: each is known by something of the first's."""
    first, *others = (set(identify(str(place))["keys"]) for place in places)
    return all(first & other for other in others)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return repository(tmp_path / "shop" / "api", REMOTE)


def test_clones_are_one_whatever_they_are_called_and_however_they_were_fetched(
    shop: Path, tmp_path: Path
) -> None:
    ways = [
        "git@github.com:shop/api.git", "ssh://git@github.com:22/shop/api", "github.com:Shop/api",
        "https://me:secret@github.com/shop/api/", "git://github.com/shop//api.git",
    ]  # fmt: skip
    clones = [repository(tmp_path / f"clone{i}", way) for i, way in enumerate(ways)]
    assert one(shop, *clones)
    assert identify(str(clones[3]))["keys"][0] == "remote:github.com/shop/api"
    assert "secret" not in str(identify(str(clones[3])))
    assert identify(str(clones[0]))["name"] == "api"


def test_a_clone_of_a_repository_on_this_machine_is_that_repository(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin")
    git("clone", "-q", str(origin), str(tmp_path / "one"), cwd=tmp_path)
    git("clone", "-q", f"file://{tmp_path}/one", str(tmp_path / "two"), cwd=tmp_path)
    git("clone", "-q", "--bare", str(origin), str(tmp_path / "bare.git"), cwd=tmp_path)
    git("clone", "-q", "bare.git", "three", cwd=tmp_path)
    assert one(origin, *(tmp_path / name for name in ("one", "two", "bare.git", "three")))


def test_worktrees_and_their_subdirectories_are_one(shop: Path, tmp_path: Path) -> None:
    alone = repository(tmp_path / "alone")
    for place in (shop, alone):
        tree = tmp_path / f"{place.name}-tree"
        git("worktree", "add", "-q", "-b", "other", str(tree), cwd=place)
        (tree / "deep" / "down").mkdir(parents=True)
        assert one(place, tree, tree / "deep" / "down")
        assert identify(str(tree / "deep"))["place"] == str(tree)


def test_a_submodule_is_a_project_of_its_own(shop: Path, tmp_path: Path) -> None:
    library = repository(tmp_path / "library")
    git("submodule", "add", "-q", str(library), "vendor/library", cwd=shop)
    assert not one(shop, shop / "vendor" / "library")
    assert one(library, shop / "vendor" / "library")


def test_a_renamed_folder_stays_what_it_was(shop: Path, tmp_path: Path) -> None:
    alone, plain = repository(tmp_path / "alone"), tmp_path / "plain"
    plain.mkdir()
    if not projects._born(str(plain)):
        pytest.skip("this file system does not remember when a directory was made")
    for place in (shop, alone, plain):
        before = identify(str(place))["keys"]
        place.rename(place.with_name("renamed-" + place.name))
        assert identify(str(place.with_name("renamed-" + place.name)))["keys"] == before
        place.mkdir()
        assert not set(identify(str(place))["keys"]) & set(before), "a namesake took its place"


def test_forks_and_namesakes_are_not_one(shop: Path, tmp_path: Path) -> None:
    fork = repository(tmp_path / "fork" / "api", "git@github.com:somebody/api.git")
    git("remote", "add", "upstream", REMOTE, cwd=fork)
    namesakes = [
        repository(tmp_path / "other" / "api"),
        repository(tmp_path / "third" / "api", "https://gitlab.com/shop/api.git"),
        repository(tmp_path / "port" / "api", "https://github.com:8443/shop/api.git"),
    ]
    plain = tmp_path / "plain" / "api"
    plain.mkdir(parents=True)
    for other in (fork, *namesakes, plain):
        assert not one(shop, other)
    found = [identify(str(place))["keys"] for place in (shop, fork, *namesakes, plain)]
    assert len({key for keys in found for key in keys}) == sum(map(len, found))


def test_a_repository_that_gets_an_address_is_still_known_by_itself(tmp_path: Path) -> None:
    place = repository(tmp_path / "new")
    before = identify(str(place))["keys"]
    git("remote", "add", "origin", REMOTE, cwd=place)
    assert identify(str(place))["keys"] == ["remote:github.com/shop/api", *before]


def test_directories_without_git_are_each_their_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "notes").mkdir(parents=True)
    assert not one(tmp_path / "a" / "notes", tmp_path / "b" / "notes")
    os.symlink(tmp_path / "a", tmp_path / "link")
    assert one(tmp_path / "a", tmp_path / "link")
    assert list((tmp_path / "a").rglob("*")) == [tmp_path / "a" / "notes"], "nothing was written"


def test_where_nobody_knows_when_it_was_made_a_directory_is_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projects, "_born", lambda place: 0)
    assert identify(str(tmp_path))["keys"] == [f"directory:{tmp_path.resolve()}"]


def test_the_directory_that_holds_all_others_is_personal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert identify("/")["keys"] == ["personal"]
    monkeypatch.setenv("HOME", "/usr")
    assert identify("/usr")["keys"] == ["personal"]
    assert identify("/usr/bin")["keys"] != ["personal"]


@pytest.mark.parametrize("config", ["", "[remote", '[remote "origin"]\nurl', "\x00\xff", "[" * 99])
def test_damaged_files_of_git_name_no_remote(tmp_path: Path, config: str) -> None:
    place = repository(tmp_path / "damaged")
    (place / ".git" / "config").write_text(config)
    (key,) = identify(str(place))["keys"]
    assert key.startswith("repository:")
    file = tmp_path / "broken"
    file.mkdir()
    (file / ".git").write_text("no pointer")
    assert identify(str(file))["name"]
    assert identify(str(tmp_path / "nowhere"))["keys"]


def test_it_takes_little_time_and_imports_nothing_of_ours() -> None:
    code = (
        "import sys, time\nfrom butlers.sessions.projects import identify\n"
        "began = time.process_time()\nidentify('.')\nidentify('/usr')\n"
        "print(time.process_time() - began)\n"
        "ours = {name for name in sys.modules if name.startswith('butlers')}\n"
        "print(sorted(ours - {'butlers', 'butlers.sessions', 'butlers.sessions.projects'}))"
    )
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    told = subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, text=True)
    seconds, others = told.stdout.splitlines()
    assert float(seconds) < 0.05
    assert others == "[]"
