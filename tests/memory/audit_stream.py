"""Reading the audit stream, and rows, as the owner of the database sees them."""

import json
from typing import Any
from uuid import UUID

import asyncpg

TABLES = ("episodes", "facts", "rules", "memory_links", "memory_events", "rule_applications")


async def events(owner: asyncpg.Connection, memory_id: UUID | None = None) -> list[dict[str, Any]]:
    """The events of one memory, or of all, in the order they were written."""
    rows = await owner.fetch(
        "select * from memory_events where $1::uuid is null or memory_id = $1 order by sequence",
        memory_id,
    )
    return [{**row, "payload": json.loads(row["payload"])} for row in rows]


async def event_types(owner: asyncpg.Connection, memory_id: UUID | None = None) -> list[str]:
    """What happened to one memory, or to all, in order."""
    return [event["event_type"] for event in await events(owner, memory_id)]


async def metadata(owner: asyncpg.Connection, table: str, memory_id: UUID) -> dict[str, Any]:
    """The metadata of one memory."""
    found = await owner.fetchval(f"select metadata from {table} where id = $1", memory_id)
    return json.loads(found)


async def sizes(owner: asyncpg.Connection) -> dict[str, int]:
    """How many rows each table has."""
    return {table: await owner.fetchval(f"select count(*) from {table}") for table in TABLES}


async def fade(owner: asyncpg.Connection, table: str, memory_id: UUID) -> None:
    """Mark a memory as fading, as the sweep does."""
    await owner.execute(
        f"""update {table} set metadata = metadata || '{{"status": "fading"}}' where id = $1""",
        memory_id,
    )
