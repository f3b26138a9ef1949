"""Read shell commands, and find the commands and files that a text names.

Hooks run this before every command of an agent, so it imports very little.
"""

import fnmatch
import posixpath
import re
from collections.abc import Iterable

_MAX_CHARACTERS, _MAX_WORDS = 20_000, 24
_TOKEN = re.compile(r"""&&|\|\||[;&|\n()]|(?:'[^']*'|"(?:[^"\\]|\\.)*"|[^\s;&|()'"])+""")
_OPERATORS = frozenset(("&&", "||", ";", "&", "|", "\n", "(", ")"))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ASSIGNMENT = re.compile(r"\w+=")
_WRAPPERS = _words(
    """
    sudo env time nohup exec command npx bunx uvx pnpx xargs
    """
)
_RUNNERS = frozenset(("uv run", "poetry run", "pipenv run", "hatch run", "bundle exec"))
_INTERPRETER = re.compile(r"(?:python|pypy)[\d.]*|node|ruby|bash|sh|zsh|perl|deno|bun")
# Programs that do different things by their first word; the word belongs to the name.
_WITH_SUBCOMMAND = _words(
    """
    git gh docker podman npm pnpm yarn make just task cargo go kubectl helm terraform tofu pulumi
    pip uv poetry pipenv bundle gem rails composer mvn gradle gradlew aws gcloud az heroku fly
    systemctl apt apt-get brew dnf alembic flask django-admin manage.py ansible vault nx turbo
    dotnet mix rake conda prisma supabase vercel
    """
)
_WITH_TWO = frozenset(("docker compose", "npm run", "pnpm run", "yarn run", "uv pip", "gh pr"))
_OTHERS = _words(
    """
    pytest tox nox mypy ruff black eslint prettier tsc jest vitest psql mysql sqlite3 redis-cli
    mongosh pg_dump pg_restore ssh scp rsync curl wget ansible-playbook sops dbt airflow celery
    gunicorn uvicorn webpack vite playwright cypress rspec rubocop phpunit cmake ninja bazel gcc
    clang rustc rustfmt gofmt golangci-lint docker-compose minikube skaffold sqlfluff
    """
)
PROGRAMS = _WITH_SUBCOMMAND | _OTHERS
"""Programs that are recognised in plain text, without backticks."""
# Everybody's tools: a text is about them only if it names their arguments too.
_EVERYDAY = _words(
    """
    ls cat cd pwd echo head tail less grep rg find sed awk sort uniq wc mkdir touch cp mv rm ln
    chmod chown diff which test true tree file stat ps kill sleep export source tee tar
    """
)
_PUNCTUATION = ".,;:!?()[]\"'“”‘’«»"
_FILE = re.compile(
    r"(?:[\w.*@~-]*/)+[\w.*@-]*|[\w*-][\w.*-]*\.[a-z][a-z0-9]{0,9}|\.[a-z][\w-]+(?:\.\w+)*"
)


def simple_commands(command: str) -> list[list[str]]:
    """Split a shell command into its simple commands: program and arguments, without wrappers.

    `cd web && sudo python3 -m pip install x` is `cd web` and `pip install x`.
    """
    parts: list[list[str]] = [[]]
    for token in _TOKEN.findall(command[:_MAX_CHARACTERS]):
        if token in _OPERATORS:
            parts.append([])
        elif len(parts[-1]) < _MAX_WORDS:
            parts[-1].append(token.strip("'\""))
    return [words for part in parts if (words := _unwrapped(part))]


def programs(command: str) -> set[str]:
    """Return the programs that a command runs."""
    return {words[0] for words in simple_commands(command)}


def _unwrapped(words: list[str]) -> list[str]:
    """Return a simple command from its program on: `sudo python3 -m pip` is `pip`."""
    while words:
        name = posixpath.basename(words[0])
        if _ASSIGNMENT.match(words[0]) or name in _WRAPPERS:
            words = words[1:]
        elif " ".join(words[:2]) in _RUNNERS:
            words = words[2:]
        elif _INTERPRETER.fullmatch(name) and (words[1:2] == ["-m"] or _is_argument(words[1:2])):
            words = words[2:] if words[1] == "-m" else words[1:]
        else:
            return [re.sub(r"(?<=^pip)[\d.]+$", "", name), *words[1:]]
    return []


def _is_argument(words: list[str]) -> bool:
    return bool(words) and not words[0].startswith("-")


def named_commands(text: str) -> list[list[str]]:
    """Find the commands that a text names: between backticks, or by a program known to be one."""
    found: list[list[str]] = []
    for number, span in enumerate(text[:_MAX_CHARACTERS].split("`")):
        if number % 2:
            found += [_without_options(words) for words in simple_commands(span)]
        else:
            tokens = span.split()
            found += [_named_at(tokens, at) for at in range(len(tokens))]
    return [words for words in found if words and (words[1:] or words[0] not in _EVERYDAY)]


def _without_options(words: list[str]) -> list[str]:
    """Of a program without subcommands whose options alone are named, only the program."""
    has_options_only = words[1:2] and words[1].startswith("-") and words[0] in _OTHERS
    return words[:1] if has_options_only else words


def _named_at(tokens: list[str], at: int) -> list[str]:
    """Return the command that starts at a token of plain text; empty if none does."""
    first, ends = _word(tokens[at])
    name = re.sub(r"(?<=^pip)3$", "", posixpath.basename(first))
    if name not in PROGRAMS | _EVERYDAY:
        return []
    words, wanted = [name], name in _WITH_SUBCOMMAND
    for token in [] if ends else tokens[at + 1 :]:
        word, ends = _word(token)
        if not wanted and not word.startswith("-") and not _FILE.fullmatch(word):
            break
        words.append(word)
        wanted = " ".join(words) in _WITH_TWO
        if ends:
            break
    return words if words[1:] or name in _OTHERS else []


def _word(token: str) -> tuple[str, bool]:
    """Return a token without punctuation, and whether a clause ends with it."""
    word = token.lstrip(_PUNCTUATION.replace(".", "")).rstrip(_PUNCTUATION)
    return word, token[-1] in _PUNCTUATION


def named_files(text: str) -> list[str]:
    """Find the paths, file names and globs that a text names; a directory ends with a slash."""
    words = (_word(token)[0] for token in text[:_MAX_CHARACTERS].replace("`", " ").split())
    return [word for word in words if "://" not in word and _FILE.fullmatch(word)]


def is_named(words: list[str], named: list[str]) -> bool:
    """Whether a simple command is one that was named: same program, and every named argument."""
    rest = words[1:]
    return words[0] == named[0] and all(
        any(_covers(argument, word) for word in rest) for argument in named[1:]
    )


def _covers(named: str, word: str) -> bool:
    """Whether an argument is the one named, or a file within the directory named."""
    bare, given = named.rstrip("/"), word.removeprefix("./").rstrip("/")
    return given == bare or given.startswith((f"{bare}/", f"{bare}="))


def is_named_file(path: str, named: str) -> bool:
    """Whether a file is the one named, matches the glob, or is within the directory named."""
    whole, pattern = f"/{path.lstrip('/')}", named.removeprefix("./").lstrip("/")
    if pattern.endswith("/"):
        return f"/{pattern}" in whole
    return fnmatch.fnmatchcase(whole, f"*/{pattern}")


def keys_of_text(text: str) -> set[str]:
    """Return the keys under which a text is found by `keys_of_call`."""
    keys = {_file_key(name) for name in named_files(text)}
    for words in named_commands(text):
        is_plain = words[1:] and not _FILE.fullmatch(words[1])
        keys.add(" ".join(words[:2]) if is_plain else words[0])
    return keys


def _file_key(named: str) -> str:
    directory, _, name = named.rstrip("/").rpartition("/")
    if named.endswith("/"):
        return f"{name}/"
    if "*" in name:
        return f"{posixpath.basename(directory)}/" if directory else "*"
    return name


def keys_of_call(command: str, files: Iterable[str]) -> set[str]:
    """Return the keys of a tool call: if no text has one of them, no text names the call."""
    keys: set[str] = set()
    for words in simple_commands(command):
        keys |= {words[0], *(f"{words[0]} {word}" for word in words[1:])}
    for file in files:
        *directories, name = file.split("/")
        keys |= {name, "*", *(f"{directory}/" for directory in directories)}
    return keys
