"""How the code is written: short, and without the things that make it hard to trust."""

import ast
from pathlib import Path

import pytest

import butlers

SOURCE = Path(butlers.__file__).parent
CLUSTER = SOURCE.with_name("butlers_cluster")
FILES = [file for package in (SOURCE, CLUSTER) for file in sorted(package.rglob("*.py"))]


def path_of(file):
    """A file as the checks name it: from the core's folder, or from `butlers_cluster`."""
    return file.relative_to(SOURCE if SOURCE in file.parents else CLUSTER.parent).as_posix()


TREES = {path_of(file): ast.parse(file.read_text()) for file in FILES}
LONGEST_FILE = 300
USUAL_FUNCTION, LONG_FUNCTION = 6, 15

# Where an error of any kind ends, and why it may.
GUARDS = {
    "sessions/fail_open.py": "a session never fails because its memory does",
    "host/spool_worker.py": "one session that cannot be stored keeps no other from being stored",
    "backup/directory.py": "a backup that fails keeps no later one from being made",
    "host/butler.py": "one module that cannot start or stop keeps no other from it",
    "doctor/checks.py": "a check that breaks is itself a finding",
    "jobs/schedule.py": "a job that fails is a line in the history, not the end of the schedule",
    "interfaces/http/fanout.py": "one butler that fails leaves what the others say complete",
    "memory/flows/consolidation/run.py": "a tenant or a group that fails leaves the others alone",
    "memory/flows/consolidation/apply.py": "an action that fails leaves the others alone",
    "kernel/throttle.py": "what is thrown at metered work is thrown into it, and ends there",
    "notebook/search.py": "whatever a caller's callback does, the search goes on",
}


def functions():
    return [
        (path, node)
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def dotted(node):
    """`a.b.c` as text, or nothing for any other expression."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def test_there_is_something_to_look_at():
    assert len(FILES) > 50
    assert len(functions()) > 300


def test_no_file_is_too_long_to_be_read_at_once():
    sql = [*SOURCE.rglob("*.sql"), *CLUSTER.rglob("*.sql")]
    lengths = {file: len(file.read_text().splitlines()) for file in [*FILES, *sql]}
    assert [str(file) for file, lines in lengths.items() if lines > LONGEST_FILE] == []


def test_nine_functions_in_ten_are_short():
    lengths = sorted(node.end_lineno - node.lineno + 1 for _, node in functions())
    assert lengths[len(lengths) * 9 // 10] <= LONG_FUNCTION
    assert lengths[len(lengths) // 2] <= USUAL_FUNCTION


@pytest.mark.parametrize("word", ["utils", "util", "helpers", "common", "base", "misc"])
def test_names_carry_meaning(word):
    assert [path for path in TREES if word in Path(path).with_suffix("").parts] == []


def test_every_file_says_what_it_is():
    assert [path for path, tree in TREES.items() if not ast.get_docstring(tree)] == []


def test_every_public_function_states_what_is_true():
    silent = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in TREES.items()
        for node in public_functions(tree)
        if not ast.get_docstring(node)
    ]
    assert silent == []


def public_functions(tree):
    """Functions of a module and methods of its public classes, without the underscored."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from (child for child in node.body if is_public_function(child))
        elif is_public_function(node):
            yield node


def is_public_function(node):
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith(
        "_"
    )


CLOCKS = {
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today", "time.time",
    "datetime.datetime.now", "datetime.date.today",
}  # fmt: skip


@pytest.mark.parametrize(
    ("door", "forbidden"), [("clock.py", CLOCKS), ("ids.py", {"uuid4", "uuid1"})]
)
def test_time_and_ids_come_in_by_one_door(door, forbidden):
    found = [
        f"{path}:{node.lineno} {dotted(node)}"
        for path, tree in TREES.items()
        if path != door
        for node in ast.walk(tree)
        if dotted(node) in forbidden
    ]
    assert found == []


def swallows(handler):
    """Whether a handler takes errors of every kind and does not pass one on."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    broad = any(kind is None or dotted(kind) in ("Exception", "BaseException") for kind in kinds)
    return broad and not isinstance(handler.body[-1], ast.Raise)


def test_errors_of_every_kind_end_only_at_guards_and_every_guard_ends_some():
    found = {
        path
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and swallows(node)
    }
    assert found == GUARDS.keys()


def test_a_handler_that_swallows_is_recognised():
    tried = "try:\n    x\nexcept {}:\n    {}"
    for kind, body, swallowing in [
        ("Exception", "pass", True),
        ("(ValueError, BaseException)", "log()", True),
        ("ValueError", "pass", False),
        ("Exception as e", "raise Other from e", False),
    ]:
        handler = ast.parse(tried.format(kind, body)).body[0].handlers[0]
        assert swallows(handler) == swallowing
