"""The index is kept by the tables themselves, and filled with what was stored before it."""

from uuid import UUID

import structlog

from butlers.db.postgres import Row
from butlers.db.upgrade import fetch_section, run_sections
from butlers.kernel.text import preprocess_text
from butlers.kernel.words import prepared

revision = "mem_016"
down_revision = "mem_015"

KINDS = ("episode", "fact", "rule")
BATCH = 2_000

_log = structlog.get_logger(__name__)


def upgrade() -> None:
    """Triggers keep the index from here on; whatever there is enters it, tenant by tenant."""
    run_sections(__file__, noun=KINDS)
    for row in _rows("tenants"):
        _index(row["tenant"])


def _index(tenant: str) -> None:
    _rows("act_for", tenant=tenant)
    for kind in KINDS:
        _respell(tenant, kind)
    _fill(tenant)
    _rows("enter_people", tenant=tenant)


def _respell(tenant: str, kind: str) -> None:
    """Make the words of texts beyond ASCII anew, as they are made from here on."""
    after = UUID(int=0)
    while texts := _rows("foreign_texts", tenant=tenant, kind=kind, after=after, limit=BATCH):
        ids = [row["id"] for row in texts]
        words = [prepared(preprocess_text(row["text"])) for row in texts]
        _rows("respell", kind, tenant=tenant, ids=ids, texts=words)
        after = ids[-1]


def _fill(tenant: str) -> None:
    """Enter every memory of a tenant, the oldest of its kind first."""
    total, done = _rows("unentered", tenant=tenant)[0]["number"], 0
    for kind in KINDS:
        while entered := _rows("enter", tenant=tenant, kind=kind, limit=BATCH)[0]["number"]:
            done += entered
            _log.info(f"indexing {done:,} of {total:,} memories", tenant_id=tenant)


def _rows(section: str, noun: str = KINDS[0], **values: object) -> list[Row]:
    return fetch_section(__file__, section, values, noun=noun)
