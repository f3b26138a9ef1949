"""Values written the way a person writes them in TOML."""

import json
from collections.abc import Mapping

from pydantic import BaseModel


def toml_value(value: object) -> str:
    """The value as TOML on one line."""
    if isinstance(value, BaseModel):
        return toml_value(dict(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, Mapping):
        return _inline_table(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    return str(value)


def toml_string(text: str) -> str:
    """The text as a basic string of TOML, which is JSON's but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _inline_table(table: Mapping[str, object]) -> str:
    return "{ " + ", ".join(f"{key} = {toml_value(value)}" for key, value in table.items()) + " }"
