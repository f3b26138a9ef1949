"""Keys that were settings until the last version: still accepted, with a warning."""

from typing import Any

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
_EMPTY_TABLE = "modules.notebook.schedule"
"""A table of which no key is left; files of the last version hold it, empty."""

REMOVED = frozenset(f"{table}.{key}" for table, keys in _EVERY_FILE.items() for key in keys.split())
"""Every removed key, with its tables."""

INSTEAD = {
    "runtime.binary": "it is used as runtime.command = [PATH], write that instead",
    "modules.memory.consolidation.timeout_seconds": "set runtime.timeout_seconds instead",
    "modules.memory.consolidation.tenant_max_runs": "a tenant gets half of daily_max_runs",
    "modules.memory.context.rules_share": "rules get what facts_share and episodes_share leave",
}
"""What to write, or to know, where it is not enough to remove the line."""


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
            warnings.append(f"{name}: no longer a setting; {INSTEAD.get(name, 'remove it')}")
            if name == "runtime.binary" and value:
                table.setdefault("command", [value])
    return warnings
