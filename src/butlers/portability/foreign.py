"""Memories of other products enter a tenant: conversations as sessions do, the rest one by one."""

import asyncio
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from butlers.errors import ButlersError, InvalidInput
from butlers.host.butler import Butler
from butlers.memory.flows import portable
from butlers.memory.flows.batch import store_batch
from butlers.memory.model import Lineage, New, NewFact, Origin
from butlers.memory.operations import OperationContext
from butlers.portability import conversations, documents, pam
from butlers.portability.conversations import Unreadable
from butlers.portability.native import Imported, OnStep
from butlers.sessions.essence import store_session

MAX_BYTES = 2 * 1024**3
"""How much of an export is read: what is packed may say less of itself than it holds."""

_AT_ONCE = 200


async def bring_chatgpt(
    butler: Butler, source: Path, lineage: Lineage, on_step: OnStep
) -> Imported:
    """Bring in conversations of ChatGPT's data export: its zip, or conversations.json."""
    told = await asyncio.to_thread(lambda: members(source))
    return await _bring_conversations(butler, "chatgpt", told, lineage, on_step)


async def bring_claude(butler: Butler, source: Path, lineage: Lineage, on_step: OnStep) -> Imported:
    """Bring in Claude's data export: conversations, and what projects were given to read."""
    told = await asyncio.to_thread(lambda: members(source))
    done = await _bring_conversations(butler, "claude", told, lineage, on_step)
    read = list(_claude_documents(told, butler.name))
    return await _store(butler, read, done, lineage, on_step)


async def bring_mem0(butler: Butler, source: Path, lineage: Lineage, on_step: OnStep) -> Imported:
    """Bring in what mem0's `get_all` answers."""
    [told] = (await asyncio.to_thread(lambda: members(source))).values()
    listed = told.get("results", told.get("memories")) if isinstance(told, Mapping) else told
    if not isinstance(listed, list):
        raise InvalidInput(f"{source}: found no list of memories; nothing was written")
    read = [_mem0(place, one, butler.name) for place, one in enumerate(listed)]
    return await _store(butler, read, Imported("mem0"), lineage, on_step)


async def bring_pam(butler: Butler, source: Path, lineage: Lineage, on_step: OnStep) -> Imported:
    """Bring in a document of Portable AI Memory."""
    [told] = (await asyncio.to_thread(lambda: members(source))).values()
    # Who said it is another product's word.
    read = [
        one if isinstance(one, str) else replace(one, origin=Origin.INFERRED)
        for one in pam.read_pam(told, butler.name)
    ]
    return await _store(butler, read, Imported("pam"), lineage, on_step)


async def bring_markdown(
    butler: Butler, source: Path, lineage: Lineage, on_step: OnStep
) -> Imported:
    """Bring in Markdown: a file, or all of a folder."""
    read: list[New | str] = []
    for file in await asyncio.to_thread(documents.markdown_files, source):
        name = file.name if source.is_file() else file.relative_to(source).as_posix()
        text = await asyncio.to_thread(file.read_bytes)
        read += documents.memories(name, text.decode("utf-8", "replace"), butler.name, {})
    return await _store(butler, read, Imported("markdown"), lineage, on_step)


def members(source: Path) -> dict[str, Any]:
    """The JSON files of an export by their names: of a zip, of a folder, or a file itself."""
    if source.is_dir():
        files = [file for file in sorted(source.rglob("*.json")) if file.is_file()]
        return {file.name: _json(file.name, file.read_bytes()) for file in files}
    if not zipfile.is_zipfile(source):
        return {source.name: _json(source.name, source.read_bytes())}
    with zipfile.ZipFile(source) as packed:
        listed = [one for one in packed.infolist() if one.filename.endswith(".json")]
        if sum(one.file_size for one in listed) > MAX_BYTES:
            raise InvalidInput(f"{source}: more than {MAX_BYTES} bytes; nothing was written")
        return {
            PurePosixPath(one.filename).name: _json(one.filename, packed.read(one))
            for one in listed
        }


def _json(name: str, written: bytes) -> Any:
    try:
        return json.loads(written)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{name}: found no JSON ({error}); nothing was written") from None


async def _bring_conversations(
    butler: Butler, source: str, told: Mapping[str, Any], lineage: Lineage, on_step: OnStep
) -> Imported:
    done = Imported(source, {"conversation": 0}, {"conversation": 0})
    listed = [
        one
        for name, given in told.items()
        if len(told) == 1 or name.startswith("conversations")
        for one in (given if isinstance(given, list) else [given])
    ]
    ctx = OperationContext(butler.memory, lineage)
    for place, one in enumerate(listed):
        on_step("storing conversations", place, len(listed))
        try:
            found = conversations.read(source, one)
            metadata = {"source": source, "title": found.title[:200], "project": ""}
            stored = await store_session(ctx, f"{source}-{found.id}"[:200], found.said, metadata)
            (done.stored if stored else done.known)["conversation"] += 1
        except (Unreadable, InvalidInput) as error:
            done.skipped.append(f"conversation {place + 1}: {error}")
    return done


async def _store(
    butler: Butler, read: Sequence[New | str], done: Imported, lineage: Lineage, on_step: OnStep
) -> Imported:
    """Store memories that are not known by their keys, some at a time."""
    done.skipped += [one for one in read if isinstance(one, str)]
    new = {_key(one): one for one in read if not isinstance(one, str)}
    keys = list(new)
    known = await portable.known_keys(butler.memory, keys, lineage)
    for one in (new[key] for key in keys if key in known):
        _count(done.known, one)
    fresh = [new[key] for key in keys if key not in known]
    for start in range(0, len(fresh), _AT_ONCE):
        on_step("storing", start, len(fresh))
        some: list[New | ButlersError] = list(fresh[start : start + _AT_ONCE])
        stored = await store_batch(butler.memory, some, lineage, lambda done, total: None)
        for result in stored.results:
            if result.error is None:
                _count(done.stored, fresh[start + result.place])
            else:
                done.skipped.append(f"{_key(fresh[start + result.place])}: {result.error}")
    return done


def _key(new: New) -> str:
    return new.idempotency_key or ""


def _count(counts: dict[str, int], new: New) -> None:
    kind = type(new).__name__.removeprefix("New").lower()
    counts[kind] = counts.get(kind, 0) + 1


def _claude_documents(told: Mapping[str, Any], butler: str) -> Iterator[New]:
    """What projects of Claude were given to read, and what it remembers of its user."""
    for project in _objects(told.get("projects.json")):
        name = str(project.get("name") or "project")
        texts = {"instructions": project.get("prompt_template")}
        texts |= {str(d.get("filename")): d.get("content") for d in _objects(project.get("docs"))}
        for title, text in texts.items():
            if isinstance(text, str) and text.strip():
                yield from documents.memories(f"{name}/{title}", text, butler, {"source": "claude"})
    for one in _objects(told.get("memories.json")):
        texts = {"memory": one.get("conversations_memory")}
        more = one.get("project_memories")
        texts |= more if isinstance(more, dict) else {}
        for title, text in texts.items():
            if isinstance(text, str) and text.strip():
                yield from documents.memories(f"Claude/{title}", text, butler, {"source": "claude"})


def _objects(given: Any) -> Iterable[Mapping[str, Any]]:
    return [one for one in given if isinstance(one, Mapping)] if isinstance(given, list) else []


def _mem0(place: int, told: Any, butler: str) -> New | str:
    """A memory of mem0: a fact about its user, under a key of its own."""
    text = told.get("memory", told.get("text")) if isinstance(told, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        return f"memory {place + 1}: it says nothing"
    id = str(told.get("id") or place)
    kept = told.get("metadata")
    return NewFact(
        str(told.get("user_id") or told.get("agent_id") or "user")[:200],
        f"noted {id[:8]}",
        text,
        tags=tuple(str(tag) for tag in told.get("categories") or ()),
        metadata={"source": "mem0", "mem0": kept if isinstance(kept, dict) else {}},
        idempotency_key=f"import:mem0:{id}"[:400],
        source_butler=butler,
        said_at=_at(told.get("created_at")),
        origin=Origin.INFERRED,
    )


def _at(given: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(given))
    except ValueError:
        return None
    return at.astimezone(UTC) if at.tzinfo else None
