"""Apply the setting for secrets to text before it is stored: mask, refuse or keep them."""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

from butlers.errors import InvalidInput
from butlers.kernel.secrets import Masked, marks_in, masked, masked_value
from butlers.kernel.text import clean

Secrets = Literal["mask", "refuse", "keep"]
"""What a butler does with a secret in what it stores."""


def admitted(secrets: Secrets, field: str, text: str, name: str = "") -> str:
    """Return a text as it may be stored; its `name` may show that it is a secret."""
    if secrets == "keep":
        return text
    cleaned = clean(text)
    result = masked_value(clean(name), cleaned) if name else masked(cleaned)
    if secrets == "refuse":
        _refuse_any(field, result)
    return result.text if result.count else text


def admitted_json(secrets: Secrets, field: str, value: Any, name: str = "") -> Any:
    """Return a JSON value of bounded depth as it may be stored, keys included."""
    match value:
        case str():
            return admitted(secrets, field, value, name)
        case list():
            return [admitted_json(secrets, field, inner, name) for inner in value]
        case Mapping():
            return {
                admitted(secrets, field, key): admitted_json(secrets, f"{field}.{key}", inner, key)
                for key, inner in value.items()
            }
    return value


def admitted_key(secrets: Secrets, field: str, key: str) -> str:
    """Return a key as it may be stored; one with a secret is hashed, so that keys stay distinct."""
    if admitted(secrets, field, key) == key:
        return key
    return f"sha256:{hashlib.sha256(key.encode(errors='replace')).hexdigest()}"


def refuse_secret(secrets: Secrets, field: str, key: str) -> None:
    """Raise InvalidInput if a key that people read holds a secret, unless secrets are kept."""
    if secrets != "keep":
        _refuse_any(field, masked(clean(key)))


def marks_within(value: Any) -> int:
    """Count the masked secrets in a value, at every depth."""
    match value:
        case str():
            return marks_in(value)
        case list() | tuple():
            return sum(map(marks_within, value))
        case Mapping():
            return sum(map(marks_within, [*value.keys(), *value.values()]))
    return 0


def _refuse_any(field: str, result: Masked) -> None:
    if result.count:
        # A field of metadata is named by its keys, which may be secrets too.
        where, kinds = masked(field).text, ", ".join(result.kinds)
        raise InvalidInput(f"{where}: found a secret ({kinds}), which is not kept; leave it out")
