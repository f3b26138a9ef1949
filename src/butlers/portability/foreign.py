"""Import memories of other products: conversations as sessions, the rest one by one."""

import asyncio
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from butlers.errors import ButlersError, InvalidInput
from butlers.host.butler import Butler
from butlers.kernel.private_tags import without_private
from butlers.llm.envelopes import mapping
from butlers.memory.flows import portable
from butlers.memory.flows.batch import store_batch
from butlers.memory.model import Lineage, New, NewFact, Origin
from butlers.memory.operations import OperationContext
from butlers.portability import conversations, documents, pam
from butlers.portability.conversations import Unreadable
from butlers.portability.native import Imported, OnStep
from butlers.sessions.essence import store_session
from butlers.sessions.privacy import PrivacyRules, find_rules
from butlers.sessions.transcripts import utc_instant

MAX_BYTES = 2 * 1024**3
"""The most that is read of an export, unpacked."""

_AT_ONCE = 200
_CONVERSATIONS = ("chatgpt", "claude")
Members = Mapping[str, Any]
"""The JSON files of an export by name."""


async def bring_foreign(
    format: str, butler: Butler, source: Path, lineage: Lineage, on_step: OnStep
) -> Imported:
    """Import a file or folder of another product; memories that are known by key are skipped."""
    done, read = Imported(format), READERS[format]
    exported = {} if format == "markdown" else await asyncio.to_thread(members, source)
    if format in _CONVERSATIONS:
        await _store_conversations(butler, done, exported, lineage, on_step)
    new = await asyncio.to_thread(lambda: list(read(source, exported, butler.name)))
    return await _store(butler, new, done, lineage, on_step)


def members(source: Path) -> dict[str, Any]:
    """Read the JSON files of an export by name: of a zip, of a folder, or the file itself."""
    if source.is_dir():
        files = [file for file in sorted(source.rglob("*.json")) if file.is_file()]
        return {file.name: _json(file.name, file.read_bytes()) for file in files}
    if not zipfile.is_zipfile(source):
        return {source.name: _json(source.name, source.read_bytes())}
    with zipfile.ZipFile(source) as packed:
        listed = [info for info in packed.infolist() if info.filename.endswith(".json")]
        if sum(info.file_size for info in listed) > MAX_BYTES:
            raise InvalidInput(f"{source}: more than {MAX_BYTES} bytes; nothing was written")
        return {
            PurePosixPath(info.filename).name: _json(info.filename, packed.read(info))
            for info in listed
        }


def _json(name: str, written: bytes) -> Any:
    try:
        return json.loads(written)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{name}: found no JSON ({error}); nothing was written") from None


async def _store_conversations(
    butler: Butler, done: Imported, exported: Members, lineage: Lineage, on_step: OnStep
) -> None:
    done.stored["conversation"] = done.known["conversation"] = 0
    listed = [
        conversation
        for name, value in exported.items()
        if len(exported) == 1 or name.startswith("conversations")
        for conversation in (value if isinstance(value, list) else [value])
    ]
    ctx, source = OperationContext(butler.memory, lineage), done.source
    rules = find_rules(str(butler.home.root), "", "", None)
    for index, exported_conversation in enumerate(listed):
        on_step("storing conversations", index, len(listed))
        try:
            conversation = conversations.read(source, exported_conversation, rules)
            session = f"{source}-{conversation.id}"[:200]
            metadata = {"source": source, "title": conversation.title[:200], "project": ""}
            stored = await store_session(ctx, session, conversation.said, metadata)
            (done.stored if stored else done.known)["conversation"] += 1
        except (Unreadable, InvalidInput) as error:
            done.skipped.append(f"conversation {index + 1}: {error}")


async def _store(
    butler: Butler, read: Sequence[New | str], done: Imported, lineage: Lineage, on_step: OnStep
) -> Imported:
    """Store the memories whose keys are not known, in batches; texts say what was skipped."""
    done.skipped += [skipped for skipped in read if isinstance(skipped, str)]
    read = list(_public(read, find_rules(str(butler.home.root), "", "", None)))
    new = {memory.idempotency_key or "": memory for memory in read if not isinstance(memory, str)}
    known = await portable.known_keys(butler.memory, list(new), lineage)
    for key in new.keys() & known:
        _count(done.known, new.pop(key))
    fresh = list(new.items())
    for start in range(0, len(fresh), _AT_ONCE):
        on_step("storing", start, len(fresh))
        batch: list[New | ButlersError] = [memory for _, memory in fresh[start : start + _AT_ONCE]]
        stored = await store_batch(butler.memory, batch, lineage, lambda done, total: None)
        for result in stored.results:
            key, memory = fresh[start + result.place]
            if result.error is None:
                _count(done.stored, memory)
            else:
                done.skipped.append(f"{key}: {result.error}")
    return done


def _public(read: Sequence[New | str], rules: PrivacyRules) -> Iterator[New]:
    """Yield the memories that are not private, without private spans."""
    for memory in read:
        if not isinstance(memory, str) and not rules.matches(memory.content):
            content = without_private(memory.content)
            if content.strip():
                yield memory if content == memory.content else replace(memory, content=content)


def _count(counts: dict[str, int], new: New) -> None:
    kind = type(new).__name__.removeprefix("New").lower()
    counts[kind] = counts.get(kind, 0) + 1


def _read_markdown(source: Path, exported: Members, butler: str) -> Iterator[New]:
    """Read a Markdown file, or all of a folder."""
    for file in documents.markdown_files(source):
        name = file.name if source.is_file() else file.relative_to(source).as_posix()
        text = file.read_bytes().decode("utf-8", "replace")
        yield from documents.memories(name, text, butler, {})


def _read_pam(source: Path, exported: Members, butler: str) -> Iterator[New | str]:
    """Read a document of Portable AI Memory; who said something is that product's guess."""
    [document] = exported.values()
    for memory in pam.read_pam(document, butler):
        yield memory if isinstance(memory, str) else replace(memory, origin=Origin.INFERRED)


def _read_claude(source: Path, exported: Members, butler: str) -> Iterator[New]:
    """Read the documents of Claude's projects, and what it remembers of its user."""
    texts: list[tuple[str, Any]] = []
    for project in _objects(exported.get("projects.json")):
        name, docs = str(project.get("name") or "project"), _objects(project.get("docs"))
        texts.append((f"{name}/instructions", project.get("prompt_template")))
        texts += [(f"{name}/{doc.get('filename')}", doc.get("content")) for doc in docs]
    for memory in _objects(exported.get("memories.json")):
        texts.append(("Claude/memory", memory.get("conversations_memory")))
        projects = mapping(memory.get("project_memories"))
        texts += [(f"Claude/{title}", text) for title, text in projects.items()]
    for name, text in texts:
        if isinstance(text, str) and text.strip():
            yield from documents.memories(name, text, butler, {"source": "claude"})


def _objects(value: Any) -> Iterable[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def _read_mem0(source: Path, exported: Members, butler: str) -> Iterator[New | str]:
    """Read what mem0's `get_all` returns: facts about its user, each under a key of its own."""
    [rows] = exported.values()
    if isinstance(rows, Mapping):
        rows = rows.get("results", rows.get("memories"))
    if not isinstance(rows, list):
        raise InvalidInput(f"{source}: found no list of memories; nothing was written")
    for index, row in enumerate(rows):
        text = row.get("memory", row.get("text")) if isinstance(row, Mapping) else None
        if not isinstance(text, str) or not text.strip():
            yield f"memory {index + 1}: it says nothing"
            continue
        subject = str(row.get("user_id") or row.get("agent_id") or "user")[:200]
        id = str(row.get("id") or pam.content_hash(f"{subject} {text}"))
        tags = row.get("categories")
        yield NewFact(
            subject,
            pam.own_predicate("noted", id),
            text,
            tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
            metadata={"source": "mem0", "mem0": mapping(row.get("metadata"))},
            idempotency_key=f"import:mem0:{id}"[:400],
            source_butler=butler,
            said_at=utc_instant(row.get("created_at")),
            origin=Origin.INFERRED,
        )


READERS: Mapping[str, Callable[[Path, Members, str], Iterable[New | str]]] = {
    "pam": _read_pam,
    "chatgpt": lambda source, exported, butler: (),
    "claude": _read_claude,
    "mem0": _read_mem0,
    "markdown": _read_markdown,
}
"""For each format, what reads the memories of a file beside its conversations."""
