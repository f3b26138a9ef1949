"""The SQL of the house: every statement runs, says what it means and is used."""

import ast
import functools
import re
import sqlite3
from contextlib import closing
from importlib import import_module
from itertools import takewhile
from pathlib import Path

import asyncpg
import pytest

import butlers
from butlers.db.login import RUNTIME_ROLE
from butlers.db.migrate import migrate
from butlers.db.queries import _sections, load
from butlers.db.statements import Rows, Statement
from butlers.host.registry import CORE
from butlers.memory.module import MemoryModule
from butlers.notebook.schema import ensure_memory_schema, open_notebook
from db.databases import connected, fresh_database

SOURCE = Path(butlers.__file__).parent
# Installed with a server, not written by us.
FOREIGN = SOURCE / "db" / "embedded" / "extensions"
# What creates tables by itself, and so names no columns and gives some a time by default.
CREATING = ("db.tenant_proof", "notebook.schema", "notebook.schema_extensions")
# What only the owner of a cluster runs, and is proved on one.
CLUSTER = "butlers_cluster"

FILES = {
    ".".join(file.relative_to(root).with_suffix("").parts): file
    for package, root in ((SOURCE, SOURCE), (SOURCE.with_name(CLUSTER), SOURCE.parent))
    for file in sorted(package.rglob("*.sql"))
    if FOREIGN not in file.parents
}
# Run whole by an upgrade, and proved by the schema that comes of it.
SCHEMA = [stem for stem in FILES if ".schema." in stem or ".migrations." in stem]
QUERIES = [
    (stem, query)
    for stem, file in FILES.items()
    if stem not in (*SCHEMA, *CREATING) and not stem.startswith(CLUSTER)
    for query in load(str(file)).values()
]
SQLITE = [(stem, query) for stem, query in QUERIES if stem.startswith("notebook.")]
POSTGRES = [(stem, query) for stem, query in QUERIES if not stem.startswith("notebook.")]

# What commands do as the database's owner; requests may not.
BY_OWNER = {f"auth.token_database.{name}" for name in ("all", "add", "revoke")}

# Selects of several rows whose order means nothing, and why.
UNORDERED = {
    "db.replicas.primary": "one row",
    "db.replicas.replica": "one row",
    "db.postgres.lock_names": "returns nothing; its subquery gives the locks their order",
    "notebook.store.count_file": "one row",
    "notebook.store.count_notes": "one row",
}


def code(query):
    """The statement in one line and lower case, without what stands in quotes."""
    bare = re.sub(r"'(?:[^']|'')*'", "''", query.text)
    return " ".join(bare.lower().split())


def outermost(text):
    """A statement without what stands in parentheses."""
    while (shorter := re.sub(r"\([^()]*\)", "", text)) != text:
        text = shorter
    return text


def offenders(queries, is_wrong):
    """The statements that a check finds wrong, by name."""
    return [f"{stem}.{query.name}" for stem, query in queries if is_wrong(stem, query)]


@pytest.fixture(scope="module")
async def runtime(postgres, template):
    """A database with the tables of every butler and of its memory, as requests see it."""
    async with fresh_database(postgres, template) as name:
        await migrate(postgres.dsn(name), [CORE, MemoryModule.migrations])
        async with connected(postgres.dsn(name)) as connection:
            await connection.execute(f"set role {RUNTIME_ROLE}")
            yield connection


@pytest.fixture(scope="module")
def notebook():
    """A notebook with all its tables."""
    opened = open_notebook(":memory:")
    with closing(opened.sqlite) as sqlite:
        ensure_memory_schema(opened)
        yield sqlite.connection


def test_there_is_something_to_look_at():
    assert {"memory.store.facts", "jobs.runs", "notebook.search"} <= FILES.keys()
    assert len(POSTGRES) >= 100
    assert len(SQLITE) >= 20
    assert len(SCHEMA) >= 10


async def refusal(connection, query):
    """What the database says against a statement, if anything."""
    try:
        statement = await connection.prepare(query.positional)
        assert len(statement.get_parameters()) == len(query.parameters)
        await connection.execute(f"explain (generic_plan) {query.positional}")
    except (asyncpg.PostgresError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    return None


async def test_every_statement_fits_the_schema_and_the_rights_of_the_role_that_runs_it(runtime):
    found = {}
    for stem, query in POSTGRES:
        is_owners = f"{stem}.{query.name}" in BY_OWNER
        await runtime.execute(f"set role {'none' if is_owners else RUNTIME_ROLE}")
        if said := await refusal(runtime, query):
            found[f"{stem}.{query.name}"] = said
    assert found == {}


async def test_what_is_the_owners_is_not_for_requests(runtime):
    await runtime.execute(f"set role {RUNTIME_ROLE}")
    for stem, query in POSTGRES:
        if f"{stem}.{query.name}" in BY_OWNER:
            said = await refusal(runtime, query)
            assert said and said.startswith("InsufficientPrivilegeError"), query.name


async def test_a_statement_the_role_may_not_run_would_be_noticed(runtime):
    await runtime.execute(f"set role {RUNTIME_ROLE}")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await runtime.execute("explain (generic_plan) delete from facts where id = $1")


def test_every_statement_of_the_notebook_fits_its_schema(notebook):
    def is_wrong(_, query):
        values = dict.fromkeys(query.parameters, 1)
        try:
            return not notebook.execute(f"explain {query.text}", values).fetchall()
        except sqlite3.Error:
            return True

    assert offenders(SQLITE, is_wrong) == []


def sections(file):
    """Name and lines of every section, fragments included."""
    parts = re.split(r"^-- ([\w{}]+) --\n", file.read_text(), flags=re.MULTILINE)[1:]
    return [(name, body.splitlines()) for name, body in zip(parts[::2], parts[1::2], strict=True)]


def test_every_section_says_what_it_means():
    found = []
    for stem, file in FILES.items():
        for name, lines in sections(file) if stem not in CREATING else []:
            comment = list(takewhile(lambda line: line.startswith("-- "), lines))
            if not (1 <= len(comment) <= 3 and comment[-1].endswith(".")):
                found.append(f"{stem}.{name}")
    assert found == []


def test_every_statement_names_its_columns():
    stars = r"(select|returning|,)\s+(\w+\.)?\*"
    assert offenders(QUERIES, lambda _, query: re.search(stars, code(query))) == []


def test_time_is_a_parameter():
    clocks = (
        r"\bnow\(|current_timestamp|current_date|localtime|_timestamp\(\)|timeofday"
        r"|\b(datetime|strftime|julianday|unixepoch)\("
    )
    assert offenders(QUERIES, lambda _, query: re.search(clocks, code(query))) == []


def test_every_statement_stays_inside_a_tenant():
    """Row-level security would see to it; an index can only if the statement says so."""
    tables = r"(episodes|facts|rules|entities|memory_|visible_|\w+_vectors|embedding_versions)"

    def is_wrong(_, query):
        reads = re.search(rf"\b(from|into|update)\s+{tables}", code(query))
        return reads and "tenant_id" not in query.parameters

    assert offenders(POSTGRES, is_wrong) == []


def test_a_note_is_found_through_its_owner_or_its_id():
    def is_wrong(_, query):
        reads = re.search(r"from agent_memories\b", code(query))
        return reads and not {"agent_id", "id", "ids", "memory_id"} & set(query.parameters)

    assert offenders(SQLITE, is_wrong) == []


def test_several_rows_come_in_a_total_order():
    def is_wrong(stem, query):
        if query.name not in fetched(stem) or f"{stem}.{query.name}" in UNORDERED:
            return False
        statement = outermost(code(query))
        # What a change returns has no order to give.
        is_change = re.match(r"(with .*?)?(insert|update|delete)\b", statement)
        return not is_change and "returning" not in statement and "order by" not in statement

    assert offenders(QUERIES, is_wrong) == []


def test_every_section_is_used_and_every_use_has_one():
    for stem, file in FILES.items():
        if stem in (*CREATING, *SCHEMA) or stem.endswith(".fragments"):
            continue
        written = set(load(str(file)))
        assert named(stem, None) <= written, stem
        texts = {node.value for node in ast.walk(module(stem)) if is_text(node)}
        assert written - texts - named(stem, None) == set(), stem


def test_every_fragment_is_mentioned_by_those_it_is_for():
    for stem, file in FILES.items():
        readers = file.parent.glob("*.sql") if file.stem == "fragments" else [file]
        text = "".join("".join(_sections(reader.read_text()).values()) for reader in readers)
        fragments = [name for name in _sections(file.read_text()) if name.startswith("{")]
        unused = [name for name in fragments if name not in text]
        assert unused == [], stem


def test_a_revision_keeps_its_sql_beside_it():
    for file in SOURCE.glob("*/migrations/*.sql"):
        assert file.with_suffix(".py").exists(), file.name
    for file in SOURCE.glob("*/migrations/*.py"):
        texts = [node.value for node in ast.walk(ast.parse(file.read_text())) if is_text(node)]
        assert [text for text in texts if re.match(r"\s*(create|alter|update|grant)\b", text)] == []


@functools.cache
def module(stem):
    """The code beside the file."""
    return ast.parse(FILES[stem].with_suffix(".py").read_text())


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@functools.cache
def fetched(stem):
    """Sections of which the code beside the file wants every row."""
    bound = vars(import_module(f"butlers.{stem}")).values()
    rows = {one.query.name for one in bound if isinstance(one, Rows)}
    return rows | named(stem, "fetch") | named(stem, "Rows")


@functools.cache
def named(stem, function):
    """Sections that the code beside the file gives to a function or method, or to any."""
    calls = [
        node.args[0]
        for node in ast.walk(module(stem))
        if isinstance(node, ast.Call) and node.args
        if function in (None, getattr(node.func, "attr", ""), getattr(node.func, "id", ""))
    ]
    return {
        name
        for call in calls
        for node in ast.walk(call)
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") in ("_SQL", "_QUERIES")
        for name in sections_of(stem, node.slice)
    }


def sections_of(stem, key):
    """The sections that a key of `_SQL` stands for: f"get_{kind}" for all that are written so."""
    if not isinstance(key, ast.JoinedStr):
        return {name.value for name in ast.walk(key) if is_text(name)}
    parts = (re.escape(part.value) if is_text(part) else r"\w+" for part in key.values)
    pattern = re.compile("".join(parts))
    found = {name for name in load(str(FILES[stem])) if pattern.fullmatch(name)}
    return found or {ast.unparse(key)}


# Statements as functions: what a call gives is what the statement takes


STATEMENTS = {
    (stem.rpartition(".")[2], name): statement.query
    for stem in FILES
    if stem.startswith("memory.store.") and not stem.endswith(".fragments")
    for name, statement in vars(import_module(f"butlers.{stem}")).items()
    if isinstance(statement, Statement)
}


def calls():
    """Every call of a statement in the code: where, which, and the names it gives."""
    for path in sorted(SOURCE.rglob("*.py")):
        own = path.stem if path.parent.name == "store" else ""
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                function = node.func
                owner = getattr(getattr(function, "value", None), "id", own)
                name = getattr(function, "attr", getattr(function, "id", ""))
                if (owner, name) in STATEMENTS and node.args:
                    given = [keyword.arg for keyword in node.keywords]
                    yield f"{path.name}:{node.lineno}", STATEMENTS[owner, name], given


def test_a_call_gives_what_the_statement_takes():
    found = list(calls())
    assert len(found) >= 60
    for place, query, given in found:
        wanted = set(query.parameters) - {"tenant_id"}
        named = {name for name in given if name is not None}
        assert named <= wanted, f"{place}: {query.name} does not take {named - wanted}"
        if None not in given:
            assert named == wanted, f"{place}: {query.name} also takes {wanted - named}"
