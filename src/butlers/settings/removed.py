"""Keys that were settings until the last version: still accepted, with a warning."""

from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]

_EVERY_FILE = {
    "database": "max_lag_seconds pool_min pool_max statement_timeout_seconds lock_timeout_seconds "
    "tenant_at_once",
    "server": "requests_per_minute send_seconds",
    "fleet": "timeout_seconds",
    "sessions": "idle_minutes",
    "runtime": "binary context_timeout_seconds",
    "modules.notebook": "secrets cache_max_size cache_ttl_seconds summarize_after_days "
    "deep_search_timeout_seconds default_limit max_content_chars max_key_chars",
    "modules.notebook.schedule": "summarize",
    "modules.memory.episodes": "max_content_chars max_unread max_unread_mb",
    "modules.memory.facts": "max_content_chars",
    "modules.memory.rules": "max_content_chars",
    "modules.memory.retrieval": "max_limit",
    "modules.memory.context": "max_episodes rules_share",
    "modules.memory.consolidation": "batch_size run_minutes lease_seconds max_attempts "
    "max_known_facts max_known_rules timeout_seconds daily_max_tokens tenant_max_runs "
    "tenant_max_tokens tenant_max_cost_usd",
    "modules.memory.quarantine": "max_writes_per_minute",
}
_TABLES = (("modules", "notebook", "schedule"),)
"""Tables of which no key is left; files of the last version hold them, empty."""

REMOVED = frozenset(f"{table}.{key}" for table, keys in _EVERY_FILE.items() for key in keys.split())
"""Every removed key, with the tables it stood in."""

INSTEAD = {
    "runtime.binary": "it is used as runtime.command = [PATH], write that instead",
    "modules.memory.consolidation.timeout_seconds": "set runtime.timeout_seconds instead",
    "modules.memory.consolidation.tenant_max_runs": "a tenant gets half of daily_max_runs",
    "modules.memory.context.rules_share": "rules get what facts_share and episodes_share leave",
}
"""What to write, or to know, where it is not enough to remove the line."""


def drop_removed(document: Document) -> list[str]:
    """Take the removed keys out of a file's document; return a line of warning for each."""
    found = [key for key in _keys(document, "") if key in REMOVED]
    for key in found:
        value = _take(document, key.split("."))
        if key == "runtime.binary" and value:
            document.setdefault("runtime", {}).setdefault("command", [value])
    for path in _TABLES:
        _drop_empty(document, path)
    return [f"{key}: no longer a setting; {INSTEAD.get(key, 'remove it')}" for key in found]


def _keys(table: Document, path: str) -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _keys(value, f"{path}{key}.")
        else:
            yield f"{path}{key}"


def _take(table: Document, path: list[str]) -> object:
    """Remove the value at the path, and the tables that this leaves empty."""
    if len(path) == 1:
        return table.pop(path[0])
    value = _take(table[path[0]], path[1:])
    if not table[path[0]]:
        del table[path[0]]
    return value


def _drop_empty(document: Document, path: tuple[str, ...]) -> None:
    """Remove the table at the path where it is there and empty; what holds it stays."""
    *outer, name = path
    for key in outer:
        document = document.get(key, {})
        if not isinstance(document, dict):
            return
    if document.get(name) == {}:
        del document[name]
