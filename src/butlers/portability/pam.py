"""Portable AI Memory 1.0: memories in a form that other products read, and theirs in ours.

It knows memories and how they are related, and nothing of events, sessions or use: whoever wants
everything takes our own export. What it has no field for is carried in `metadata`.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from butlers import __version__
from butlers.errors import InvalidInput
from butlers.host.butler import Butler
from butlers.memory.flows import portable
from butlers.memory.model import (
    Lineage,
    Maturity,
    New,
    NewEpisode,
    NewFact,
    NewRule,
    Permanence,
)

SCHEMA, VERSION = "portable-ai-memory", "1.0"
_TYPES = {"fact": "fact", "rule": "instruction", "episode": "context"}
_STATUS = {"superseded": "superseded", "retracted": "retracted", "expired": "archived"}
_TAG = re.compile(r"[a-z0-9][a-z0-9_-]*")
_FACT_FIELDS = ("subject", "predicate", "content", "scope", "importance", "permanence")
_OTHER_FIELDS = ("scope", "importance", "permanence")
_PLACES = 4


async def export_pam(butler: Butler, lineage: Lineage) -> AsyncIterator[bytes]:
    """A document of Portable AI Memory, in one piece: its hash covers all memories by id."""
    memories: dict[str, dict[str, Any]] = {}
    relations: list[dict[str, Any]] = []
    replaced: dict[str, str] = {}
    async for kind, written in portable.export_rows(butler.memory, lineage):
        row = json.loads(written)
        if kind in _TYPES:
            memories[row["id"]] = _memory(kind, row)
            if row.get("supersedes_id"):
                replaced[row["supersedes_id"]] = row["id"]
        elif kind == "link":
            relations.append(_relation(row))
    for id, by in replaced.items():
        if id in memories and memories[id]["status"] == "superseded":
            memories[id]["temporal"]["superseded_by"] = by
    listed = [memories[id] for id in sorted(memories)]
    known = [one for one in relations if one["from"] in memories and one["to"] in memories]
    document = _document(listed, known, lineage, butler.memory.now())
    yield json.dumps(document, ensure_ascii=False, indent=1).encode()


def read_pam(document: Any, butler: str) -> Iterator[New | str]:
    """The memories of a document that hold, and in words what is left out."""
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        raise InvalidInput(f'found no document with "schema": "{SCHEMA}"; nothing was written')
    given = document.get("memories")
    if not isinstance(given, list):
        raise InvalidInput("memories: found no list; nothing was written")
    for place, one in enumerate(given):
        yield _new(place, one, butler)


def content_hash(content: str) -> str:
    """What a content is known by: in small letters, with single spaces, composed."""
    plain = re.sub(r"\s+", " ", unicodedata.normalize("NFC", content.strip().lower()))
    return f"sha256:{hashlib.sha256(plain.encode()).hexdigest()}"


def canonical(value: Any) -> str:
    """JSON in the one form that hashes are made of (RFC 8785)."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(key)}:{canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _document(
    memories: list[dict[str, Any]],
    relations: list[dict[str, Any]],
    lineage: Lineage,
    now: datetime,
) -> dict[str, Any]:
    digest = hashlib.sha256(canonical(memories).encode()).hexdigest()
    return {
        "schema": SCHEMA,
        "schema_version": VERSION,
        "spec_uri": "https://portable-ai-memory.org/spec/v1.0",
        "exported_by": f"butlers/{__version__}",
        "export_date": now.isoformat(),
        "owner": {"id": lineage.tenant_id},
        "memories": memories,
        "relations": relations,
        "integrity": {
            "canonicalization": "RFC8785",
            "checksum": f"sha256:{digest}",
            "total_memories": len(memories),
        },
        "export_type": "full",
    }


def _memory(kind: str, row: Mapping[str, Any]) -> dict[str, Any]:
    content = row["content"]
    if kind == "fact":
        content = f"{row['subject']} {row['predicate']}: {content}"
    own = _FACT_FIELDS if kind == "fact" else _OTHER_FIELDS
    told = {name: _number(row[name]) for name in own if row.get(name) is not None}
    return {
        "id": row["id"],
        "type": _TYPES[kind],
        "custom_type": None,
        "status": _status(kind, row),
        "content": content,
        "content_hash": content_hash(content),
        "tags": sorted({tag for tag in row.get("tags") or () if _TAG.fullmatch(tag)}),
        **({"confidence": _confidence(row)} if "confidence" in row else {}),
        "temporal": {"created_at": row["created_at"], "updated_at": None, "superseded_by": None},
        "provenance": {"platform": "butlers", "extraction_method": "api_export"},
        "access": {"visibility": "private", "exportable": True},
        "embedding_ref": None,
        "metadata": {"butlers": {"kind": kind, **told}},
    }


def _status(kind: str, row: Mapping[str, Any]) -> str:
    if kind == "fact":
        return _STATUS.get(row["validity"], "active")
    forgotten = kind == "rule" and (row.get("metadata") or {}).get("forgotten")
    return "retracted" if forgotten else "active"


def _confidence(row: Mapping[str, Any]) -> dict[str, Any]:
    warns = row.get("maturity") == Maturity.ANTI_PATTERN
    return {
        "initial": _number(row["confidence"]),
        "current": _number(row["confidence"]),
        "decay_model": "time_exponential" if row["decay_rate"] and not warns else "none",
        "last_reinforced": row.get("last_confirmed_at"),
    }


def _relation(row: Mapping[str, Any]) -> dict[str, Any]:
    told = [row["source_id"], row["relation"], row["target_id"]]
    return {
        "id": hashlib.sha256(" ".join(told).encode()).hexdigest()[:32],
        "from": row["source_id"],
        "to": row["target_id"],
        "type": row["relation"],
        "created_at": row["created_at"],
    }


def _new(place: int, told: Any, butler: str) -> New | str:
    """A memory of a document as ours, or why it is left out."""
    if not isinstance(told, Mapping) or not isinstance(told.get("content"), str):
        return f"memories[{place}]: it has no content"
    if told.get("status", "active") not in ("active", "deprecated"):
        return f"memories[{place}]: it is {told['status']}"
    id, provenance = str(told.get("id") or content_hash(told["content"])), told.get("provenance")
    platform = provenance.get("platform") if isinstance(provenance, Mapping) else None
    metadata = {"source": "pam", "platform": platform or "unknown", "type": told.get("type")}
    key = f"import:pam:{id}"[:400]
    if told.get("type") == "instruction":
        return NewRule(
            told["content"], metadata=metadata, idempotency_key=key, source_butler=butler
        )
    if told.get("type") == "context":
        return NewEpisode(
            told["content"], butler, metadata=metadata, idempotency_key=key, said_at=_at(told)
        )
    return _fact(told, id, metadata, key, butler)


def _fact(
    told: Mapping[str, Any], id: str, metadata: dict[str, Any], key: str, butler: str
) -> NewFact:
    """A memory as a fact: with its parts where it was ours, else under a key of its own."""
    ours = (told.get("metadata") or {}).get("butlers") or {}
    permanence = Permanence.STANDARD
    with suppress(ValueError):
        permanence = Permanence(ours.get("permanence", permanence))
    return NewFact(
        str(ours.get("subject") or "user"),
        str(ours.get("predicate") or f"{told.get('type') or 'fact'} {id[:8]}"),
        str(ours.get("content") or told["content"]),
        importance=float(ours.get("importance", 5.0)),
        permanence=permanence,
        tags=tuple(str(tag) for tag in told.get("tags") or ()),
        metadata=metadata,
        idempotency_key=key,
        source_butler=butler,
        said_at=_at(told),
    )


def _at(told: Mapping[str, Any]) -> datetime | None:
    with suppress(ValueError, TypeError, KeyError):
        at = datetime.fromisoformat(told["temporal"]["created_at"])
        return at.astimezone(UTC) if at.tzinfo else None
    return None


def _number(value: Any) -> Any:
    """A number as every reader writes it: whole where it is, else a few places."""
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() else round(value, _PLACES)
