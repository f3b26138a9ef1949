"""Which commands and files a text names, and which calls are calls of them."""

import pytest

from butlers.sessions.command_names import (
    is_named,
    is_named_file,
    keys_of_call,
    keys_of_text,
    named_commands,
    named_files,
    simple_commands,
)


@pytest.mark.parametrize(
    ("command", "simple"),
    [
        ("cd web && sudo npm install x", [["cd", "web"], ["npm", "install", "x"]]),
        ("A=1 python3.12 -m pip install y", [["pip", "install", "y"]]),
        ("uv run pytest -x | tail -5", [["pytest", "-x"], ["tail", "-5"]]),
        ("python manage.py migrate", [["manage.py", "migrate"]]),
        ("./gradlew build; echo 'a; b'", [["gradlew", "build"], ["echo", "a; b"]]),
        ('git commit -m "never make deploy"', [["git", "commit", "-m", "never make deploy"]]),
        ("python -V", [["python", "-V"]]),
        ("sudo", []),
        ("", []),
    ],
)
def test_a_command_is_read_from_its_program_on(command: str, simple: list[list[str]]) -> None:
    assert simple_commands(command) == simple


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("Never run `make deploy` on Fridays.", [["make", "deploy"]]),
        ("Please make sure that tests go first.", [["make", "sure"], ["go", "first"]]),
        ("git push --force is forbidden", [["git", "push", "--force"]]),
        ("start it with docker compose up.", [["docker", "compose", "up"]]),
        ("psql needs port 5433", [["psql"]]),
        ("use `psql -p 5433`", [["psql"]]),
        ("The cat sat on the file.", []),
        ("`ls`", []),
        ("rm -rf build/ breaks the cache", [["rm", "-rf", "build/"]]),
        ("we use git, make.", []),
    ],
)
def test_commands_are_recognised_in_a_text(text: str, commands: list[list[str]]) -> None:
    assert named_commands(text) == commands


def test_files_are_recognised_in_a_text() -> None:
    text = "Don't edit generated/*.py, `vendor/` or pyproject.toml (https://x.io/a.md), v1.2"
    assert named_files(text) == ["generated/*.py", "vendor/", "pyproject.toml"]


@pytest.mark.parametrize(
    ("command", "named", "is_it"),
    [
        ("make deploy ENV=prod", ["make", "deploy"], True),
        ("make", ["make", "deploy"], False),
        ("kubectl -n prod delete pod x", ["kubectl", "delete"], True),
        ("git push origin main", ["git", "push", "--force"], False),
        ("pytest ./tests/integration/test_a.py", ["pytest", "tests/integration"], True),
        ("pytest tests/integration_old", ["pytest", "tests/integration"], False),
        ("rm -rf build", ["rm", "-rf", "build/"], True),
    ],
)
def test_a_command_is_one_that_was_named(command: str, named: list[str], is_it: bool) -> None:
    (words,) = simple_commands(command)
    assert is_named(words, named) is is_it


@pytest.mark.parametrize(
    ("path", "named", "is_it"),
    [
        ("generated/models.py", "generated/*.py", True),
        ("/srv/shop/generated/models.py", "generated/*.py", True),
        ("generated/notes.md", "generated/*.py", False),
        ("lib/vendor/a.go", "vendor/", True),
        ("src/vendor_list.py", "vendor/", False),
        ("src/models.py", "models.py", True),
        ("src/submodels.py", "models.py", False),
    ],
)
def test_a_file_is_one_that_was_named(path: str, named: str, is_it: bool) -> None:
    assert is_named_file(path, named) is is_it


@pytest.mark.parametrize(
    ("text", "command", "files"),
    [
        ("`make deploy` never on Fridays", "cd x && make deploy", ()),
        ("pytest tests/integration needs the database", "pytest tests/integration/test_a.py", ()),
        ("edit no generated/*.py", "", ("/srv/generated/a.py",)),
        ("*.lock is not merged", "", ("uv.lock",)),
        ("nothing in vendor/ changes", "", ("lib/vendor/x/a.go",)),
        ("edit .env.local only", "", (".env.local",)),
    ],
)
def test_a_call_that_is_named_has_a_key_of_the_text(
    text: str, command: str, files: tuple[str, ...]
) -> None:
    assert keys_of_text(text) & keys_of_call(command, files)
    assert not keys_of_text(text) & keys_of_call("ls -la src", ("README.md",)) - {"*"}
