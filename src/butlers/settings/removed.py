"""Keys that were settings until the last version: still accepted, with a warning."""

from typing import Any

from butlers.kernel.word_tables import load_tables

_TABLES = load_tables(__file__)
_EMPTY_TABLE = "modules.notebook.schedule"
"""A table of which no key is left; files of the last version hold it, empty."""
REMOVED = frozenset(
    f"{path}.{key}" for path, keys in _TABLES["keys"].items() for key in keys.split()
)
"""Every removed key, with its tables."""


def drop_removed(table: dict[str, Any], path: str = "") -> list[str]:
    """Delete the removed keys, and tables left empty by that; return a warning for each key."""
    warnings = []
    for key, value in list(table.items()):
        name = f"{path}{key}"
        if isinstance(value, dict):
            warnings += (inner := drop_removed(value, f"{name}."))
            if not value and (inner or name == _EMPTY_TABLE):
                del table[key]
        elif name in REMOVED:
            del table[key]
            warnings.append(
                f"{name}: no longer a setting; {_TABLES['instead'].get(name, 'remove it')}"
            )
            if name == "runtime.binary" and value:
                table.setdefault("command", [value])
    return warnings
