"""The SQL of the memory module: every statement runs, says what it means and is used."""

import ast
import re
from itertools import takewhile
from pathlib import Path

import asyncpg
import pytest

import butlers
from butlers.db.queries import parse
from db.databases import connected

STORE = Path(butlers.__file__).parent / "memory" / "store"
FILES = {file.stem: file.read_text() for file in sorted(STORE.glob("*.sql"))}
QUERIES = [(stem, query) for stem, text in FILES.items() for query in parse(text).values()]
IDS = [f"{stem}.{query.name}" for stem, query in QUERIES]
every_query = pytest.mark.parametrize(("stem", "query"), QUERIES, ids=IDS)

# Selects of several rows whose order means nothing, and why.
UNORDERED = {
    "consolidation.lock_keys": "returns nothing; the locks are taken in the order of its subquery",
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


@pytest.fixture(scope="module")
async def runtime(worker_access):
    async with connected(worker_access.runtime_dsn) as connection:
        yield connection


def test_there_is_something_to_look_at():
    assert {"episodes", "facts", "rules", "links", "events"} <= FILES.keys()
    assert len(QUERIES) >= 20


@every_query
async def test_it_fits_the_schema_and_the_rights_of_the_role_that_runs_it(runtime, stem, query):
    statement = await runtime.prepare(query.positional)
    assert len(statement.get_parameters()) == len(query.parameters)
    await runtime.execute(f"explain (generic_plan) {query.positional}")


async def test_a_statement_the_role_may_not_run_would_be_noticed(runtime):
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await runtime.execute("explain (generic_plan) delete from facts where id = $1")


@every_query
def test_it_says_what_it_means(stem, query):
    section = FILES[stem].split(f"-- {query.name} --\n", 1)[1].splitlines()
    comment = list(takewhile(lambda line: line.startswith("-- "), section))
    assert 1 <= len(comment) <= 2
    assert comment[-1].endswith(".")


@every_query
def test_it_names_its_columns(stem, query):
    assert not re.search(r"(select|returning|,)\s+(\w+\.)?\*", code(query))


@every_query
def test_time_is_a_parameter(stem, query):
    clocks = r"\bnow\(|current_timestamp|current_date|localtime|_timestamp\(\)|timeofday"
    assert not re.search(clocks, code(query))


@every_query
def test_it_stays_inside_a_tenant(stem, query):
    """Row-level security would see to it; an index can only if the statement says so."""
    if re.search(r"\b(from|into|update)\s+(episodes|facts|rules|entities|memory_)", code(query)):
        assert "tenant_id" in query.parameters


@every_query
def test_several_rows_come_in_a_total_order(stem, query):
    if query.name not in names_given_to(stem, "fetch") or f"{stem}.{query.name}" in UNORDERED:
        return
    statement = outermost(code(query))
    if re.match(r"(with .*?)?(insert|update|delete)\b", statement) or "returning" in statement:
        return  # what a change returns has no order to give
    assert "order by" in statement


@pytest.mark.parametrize("stem", FILES)
def test_every_section_is_used_and_every_use_has_one(stem):
    sections = set(parse(FILES[stem]))
    assert names_given_to(stem, None) <= sections
    assert sections <= {node.value for node in ast.walk(module(stem)) if is_text(node)}


def module(stem):
    """The code beside the file."""
    return ast.parse((STORE / f"{stem}.py").read_text())


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def names_given_to(stem, method):
    """Sections that the code beside the file passes to a method of the transaction, or at all."""
    calls = [
        node.args[0]
        for node in ast.walk(module(stem))
        if isinstance(node, ast.Call) and node.args
        if method in (None, getattr(node.func, "attr", ""))
    ]
    return {
        name.value
        for call in calls
        for node in ast.walk(call)
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "_SQL"
        for name in ast.walk(node.slice)
        if is_text(name)
    }
