"""Export and import Portable AI Memory 1.0, a format that other products read.

It has memories and relations, but no events, sessions or usage counts: those are in our own
export. Fields it does not have are in `metadata`.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from butlers import __version__
from butlers.errors import InvalidInput
from butlers.host.butler import Butler
from butlers.llm.envelopes import mapping
from butlers.memory.flows import portable
from butlers.memory.model import Lineage, Maturity, New, NewEpisode, NewFact, NewRule, Permanence
from butlers.portability.conversations import Unreadable
from butlers.portability.items import Reading, own_predicate, words
from butlers.sessions.transcripts import utc_instant

SCHEMA, VERSION = "portable-ai-memory", "1.0"
_TYPES = {"fact": "fact", "rule": "instruction", "episode": "context"}
_STATUS = {"superseded": "superseded", "retracted": "retracted", "expired": "archived"}
_TAG = re.compile(r"[a-z0-9][a-z0-9_-]*")
_FACT_FIELDS = ("subject", "predicate", "content", "scope", "importance", "permanence")
_OTHER_FIELDS = ("scope", "importance", "permanence")
_PLACES = 4


async def export_pam(butler: Butler, lineage: Lineage) -> AsyncIterator[bytes]:
    """Yield a document of Portable AI Memory in one piece, for its hash covers all memories."""
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
            link = f"{row['source_id']} {row['relation']} {row['target_id']}"
            relation = {"id": hashlib.sha256(link.encode()).hexdigest()[:32]}
            relation |= {"from": row["source_id"], "to": row["target_id"]}
            relations.append(relation | {"type": row["relation"], "created_at": row["created_at"]})
    for id, by in replaced.items():
        if id in memories and memories[id]["status"] == "superseded":
            memories[id]["temporal"]["superseded_by"] = by
    listed = [memories[id] for id in sorted(memories)]
    known = [link for link in relations if link["from"] in memories and link["to"] in memories]
    document = _document(listed, known, lineage, butler.memory.now())
    yield json.dumps(document, ensure_ascii=False, indent=1).encode()


def read_pam(document: Any, butler: str) -> Reading:
    """Read the active memories of a document."""
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        raise InvalidInput(f'found no document with "schema": "{SCHEMA}"; nothing was written')
    memories = document.get("memories")
    if not isinstance(memories, list):
        raise InvalidInput("memories: found no list; nothing was written")
    for index, memory in enumerate(memories):
        yield f"memories[{index}]", partial(_read_memory, memory, butler)


def content_hash(content: str) -> str:
    """Return the hash of a content in lower case, with single spaces, composed."""
    plain = re.sub(r"\s+", " ", unicodedata.normalize("NFC", content.strip().lower()))
    return f"sha256:{hashlib.sha256(plain.encode()).hexdigest()}"


def canonical(value: Any) -> str:
    """Return a value as canonical JSON (RFC 8785), for hashes."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(key)}:{canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _document(
    memories: list[dict[str, Any]], relations: list[dict[str, Any]], lineage: Lineage, now: datetime
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
    content, forgotten = row["content"], (row.get("metadata") or {}).get("forgotten")
    status = "retracted" if kind == "rule" and forgotten else "active"
    if kind == "fact":
        content = f"{row['subject']} {row['predicate']}: {content}"
        status = _STATUS.get(row["validity"], "active")
    names = _FACT_FIELDS if kind == "fact" else _OTHER_FIELDS
    fields = {name: _number(row[name]) for name in names if row.get(name) is not None}
    return {
        "id": row["id"],
        "type": _TYPES[kind],
        "custom_type": None,
        "status": status,
        "content": content,
        "content_hash": content_hash(content),
        "tags": sorted({tag for tag in row.get("tags") or () if _TAG.fullmatch(tag)}),
        **({"confidence": _confidence(row)} if "confidence" in row else {}),
        "temporal": {"created_at": row["created_at"], "updated_at": None, "superseded_by": None},
        "provenance": {"platform": "butlers", "extraction_method": "api_export"},
        "access": {"visibility": "private", "exportable": True},
        "embedding_ref": None,
        "metadata": {"butlers": {"kind": kind, **fields}},
    }


def _confidence(row: Mapping[str, Any]) -> dict[str, Any]:
    warns = row.get("maturity") == Maturity.ANTI_PATTERN
    return {
        "initial": _number(row["confidence"]),
        "current": _number(row["confidence"]),
        "decay_model": "time_exponential" if row["decay_rate"] and not warns else "none",
        "last_reinforced": row.get("last_confirmed_at"),
    }


def _read_memory(memory: Any, butler: str) -> Iterator[New]:
    if not isinstance(memory, Mapping) or not isinstance(memory.get("content"), str):
        raise Unreadable("it has no content")
    if memory.get("status", "active") not in ("active", "deprecated"):
        raise Unreadable(f"it is {memory['status']}")
    content, kind = memory["content"], memory.get("type")
    id = str(memory.get("id") or content_hash(content))
    platform = mapping(memory.get("provenance")).get("platform") or "unknown"
    source: dict[str, Any] = {"idempotency_key": id}
    source["metadata"] = {"platform": platform, "type": kind}
    if kind == "instruction":
        yield NewRule(content, **source)
        return
    source["said_at"] = utc_instant(mapping(memory.get("temporal")).get("created_at"))
    if kind == "context":
        yield NewEpisode(content, butler, **source)
        return
    ours = mapping(mapping(memory.get("metadata")).get("butlers"))
    permanence = Permanence.STANDARD
    with suppress(ValueError):
        permanence = Permanence(ours.get("permanence", permanence))
    yield NewFact(
        str(ours.get("subject") or "user"),
        str(ours.get("predicate") or own_predicate(str(kind or "fact"), id)),
        str(ours.get("content") or content),
        importance=float(ours.get("importance", 5.0)),
        permanence=permanence,
        tags=words(memory.get("tags")),
        **source,
    )


def _number(value: Any) -> Any:
    """Round a number, so that all readers write it alike."""
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() else round(value, _PLACES)
