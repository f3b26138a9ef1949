"""The modules a butler can load, and the order they are loaded in."""

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from butlers.db.branch import Branch, newest_revision
from butlers.errors import Conflict, SettingsError
from butlers.memory.module import MemoryModule
from butlers.module import Module
from butlers.notebook.module import NotebookModule

# The migrations of every butler's database, whichever modules it loads.
CORE = Branch(
    "core",
    "butlers:jobs/migrations",
    head=newest_revision("butlers:jobs/migrations"),
    schema="butlers:jobs/schema",
    baseline="core_007",
)

KNOWN: Mapping[str, type[Module]] = {
    module.name: module for module in (MemoryModule, NotebookModule)
}


def load_order(enabled: Iterable[str], known: Mapping[str, type[Module]] = KNOWN) -> list[str]:
    """Order the enabled modules by their dependencies; SettingsError if one is missing."""
    names = sorted(set(enabled))
    graph = {name: sorted(known[name].dependencies) for name in names}
    missing = [
        f"module {name} needs module {needed}, which is not enabled"
        for name, dependencies in graph.items()
        for needed in dependencies
        if needed not in graph
    ]
    if missing:
        raise SettingsError(missing)
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise SettingsError(
            [f"modules depend on each other: {' -> '.join(error.args[1])}"]
        ) from error


def branches(known: Mapping[str, type[Module]] = KNOWN) -> list[Branch]:
    """Return every migration branch, enabled or not, so that any revision can be found."""
    return [CORE, *(module.migrations for module in known.values() if module.migrations)]


def targets(names: Iterable[str], known: Mapping[str, type[Module]] = KNOWN) -> list[str]:
    """Return the migration targets of every butler and of these modules."""
    wanted = (CORE, *(known[name].migrations for name in names))
    return [f"{branch.label}@head" for branch in wanted if branch]


def check_tool_names(modules: Iterable[Module]) -> None:
    """Raise Conflict if two modules have a tool of the same name: one would be dropped."""
    owners: dict[str, str] = {}
    for module in modules:
        for tool in (operation.tool for operation in module.operations):
            if tool in owners:
                raise Conflict(f"modules {owners[tool]} and {module.name} both offer a tool {tool}")
            owners[tool] = module.name
