"""Compile the table of secrets, `secret_kinds.toml`."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from butlers.kernel import secret_checks
from butlers.kernel.word_tables import filled, load_tables

_TABLES = load_tables(__file__)
_FLAGS = {"": 0, "ignorecase": re.IGNORECASE, "dotall": re.DOTALL}


@dataclass(frozen=True, slots=True)
class SecretKind:
    """One kind of secret; its name is shown in the mark that replaces one."""

    name: str
    shape: re.Pattern[str]
    anchors: tuple[str, ...]
    check: Callable[[str], bool] | None = None


def _kind(row: Mapping[str, Any]) -> SecretKind:
    """Compile a row of the table."""
    checks = [getattr(secret_checks, check) for check in row.get("check", "").split()]
    return SecretKind(
        row["name"],
        re.compile(filled(row["pattern"], _TABLES["fragments"]), _FLAGS[row.get("flags", "")]),
        tuple(row.get("anchors", ())),
        (lambda value: all(check(value) for check in checks)) if checks else None,
    )


def _after_names() -> Iterable[SecretKind]:
    """Yield the kinds that follow the name of a variable, a setting or a column."""
    for named in _TABLES["names"]:
        for row in _TABLES["after_names"]:
            pattern = row["pattern"].replace("{word}", named["word"])
            check = f"{row['check']} {named.get('check', '')}"
            named_as = {"name": named["name"], "anchors": [named["anchor"]], "flags": "ignorecase"}
            yield _kind({**named_as, **row, "pattern": pattern, "check": check})


KINDS = (
    *map(_kind, (*_TABLES["places"], *_TABLES["numbers"])),
    *_after_names(),
    *map(_kind, _TABLES["prose"]),
)
"""All kinds but those of providers; of several that match, the first names the secret."""

PROVIDERS = tuple(map(_kind, _TABLES["providers"]))
"""Keys and tokens whose shape names their provider."""

BARE = tuple(map(_kind, _TABLES["bare"]))
"""Keys that nothing but their randomness shows; the least certain of all."""
