"""Check everything that a butler's database holds, as `butlers check` does."""

from typing import Any

from butlers.db.index_pages import check_pages, sequences
from butlers.db.postgres import Access, Database
from butlers.embedding import get_embedding_engine
from butlers.memory.flows.check import StoreCheck
from butlers.memory.handle import Memory
from butlers.memory.settings import MemoryModuleConfig
from butlers.settings.sections import ButlerSettings


async def check_database(settings: ButlerSettings, access: Access, **scope: Any) -> StoreCheck:
    """Check what all tenants have stored, the sequences, and the pages of the indexes.

    `scope`: how much, see `StoreCheck`; with a limit no pages.
    """
    config = settings.module("memory")
    assert isinstance(config, MemoryModuleConfig)
    database = await Database.open(access, pool_max=1)
    try:
        memory = Memory(database, get_embedding_engine, settings.butler.name, config)
        report = await StoreCheck(memory, **scope).run()
    finally:
        await database.close()
    for table, last in (await sequences(access.owner_dsn)).items():
        if report.ends.get(table, 0) > last:
            report.add("", "sequence", table, last, report.ends[table])
    if report.limit is None:
        damaged, report.unchecked = await check_pages(access.owner_dsn)
        for index, why in damaged.items():
            report.add("", "page", index, why)
    return report
