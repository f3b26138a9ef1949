"""The gate for secrets: what becomes of those in what somebody wants to store."""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

from butlers.errors import InvalidInput
from butlers.kernel.secrets import Masked, marks_in, masked, masked_value
from butlers.kernel.text import clean

Secrets = Literal["mask", "refuse", "keep"]
"""What a butler does with a secret that it is given to keep."""


def admitted(secrets: Secrets, field: str, text: str, name: str = "") -> str:
    """A text as it may be stored; what goes by a secret's name is one, whatever it looks like."""
    if secrets == "keep":
        return text
    cleaned = clean(text)
    found = masked_value(clean(name), cleaned) if name else masked(cleaned)
    _refuse_if_told(secrets, field, found)
    return found.text if found.count else text


def admitted_json(secrets: Secrets, field: str, value: Any, name: str = "") -> Any:
    """A JSON value of bounded depth as it may be stored, keys included."""
    match value:
        case str():
            return admitted(secrets, field, value, name)
        case list():
            return [admitted_json(secrets, field, one, name) for one in value]
        case Mapping():
            return {
                admitted(secrets, field, key): admitted_json(secrets, f"{field}.{key}", one, key)
                for key, one in value.items()
            }
    return value


def admitted_key(secrets: Secrets, field: str, key: str) -> str:
    """A key that tells one thing from another: it is hashed, for two masks would be the same."""
    if admitted(secrets, field, key) == key:
        return key
    return f"sha256:{hashlib.sha256(key.encode(errors='replace')).hexdigest()}"


def refuse_secret(secrets: Secrets, field: str, key: str) -> None:
    """A key that people read must not hold a secret, unless secrets are kept."""
    if secrets != "keep":
        _refuse_if_told("refuse", field, masked(clean(key)))


def marks_within(value: Any) -> int:
    """How many secrets were hidden in a value, at every depth."""
    match value:
        case str():
            return marks_in(value)
        case list() | tuple():
            return sum(map(marks_within, value))
        case Mapping():
            return sum(map(marks_within, [*value.keys(), *value.values()]))
    return 0


def _refuse_if_told(secrets: Secrets, field: str, found: Masked) -> None:
    if secrets == "refuse" and found.count:
        # A field of metadata is named by its keys, which may be secrets too.
        where, kinds = masked(field).text, ", ".join(found.kinds)
        raise InvalidInput(f"{where}: found a secret ({kinds}), which is not kept; leave it out")
