"""Readers of what other products export or store: what stands in their files, item by item."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from butlers.db.sqlite import translated_errors
from butlers.errors import InvalidInput
from butlers.llm.envelopes import mapping
from butlers.memory.model import New, NewEpisode, NewFact, NewRule, Origin
from butlers.portability import conversations, documents, export_memories, items, pam
from butlers.portability.conversations import Conversation, Unreadable
from butlers.portability.items import Reading, Source, digest, objects, own_predicate, words
from butlers.sessions.transcripts import utc_instant


def _read_pam(source: Source) -> Reading:
    for document in source.members.values():
        yield from pam.read_pam(document, source.butler)


def _read_claude(source: Source) -> Reading:
    """Read conversations, the documents of projects, and what Claude remembers of its user."""
    yield from _read_conversations(source)
    texts: list[tuple[str, Any]] = []
    found = {PurePosixPath(path).name: member for path, member in source.members.items()}
    for project in objects(found.get("projects.json")):
        name, docs = str(project.get("name") or "project"), objects(project.get("docs"))
        texts.append((f"{name}/instructions", project.get("prompt_template")))
        texts += [(f"{name}/{doc.get('filename')}", doc.get("content")) for doc in docs]
    for memory in objects(found.get("memories.json")):
        texts.append(("Claude/memory", memory.get("conversations_memory")))
        projects = mapping(memory.get("project_memories"))
        texts += [(f"Claude/{title}", text) for title, text in projects.items()]
    for name, text in texts:
        if isinstance(text, str) and text.strip():
            yield name, partial(documents.memories, name, text, source.butler, {})


def _read_conversations(source: Source) -> Reading:
    listed = [
        conversation
        for path, value in source.members.items()
        if len(source.members) == 1 or PurePosixPath(path).name.startswith("conversations")
        for conversation in (value if isinstance(value, list) else [value])
    ]
    for index, exported in enumerate(listed):
        yield f"conversation {index + 1}", partial(_conversation, exported, source)


def _conversation(exported: Any, source: Source) -> Iterator[Conversation]:
    if isinstance(exported, Unreadable):
        raise exported
    yield conversations.read(source.format, exported, source.rules)


def _read_mem0(source: Source) -> Reading:
    """Read what mem0's `get_all` returns: facts about its user, each under a key of its own."""
    for rows in source.members.values():
        if isinstance(rows, Mapping):
            rows = rows.get("results", rows.get("memories"))
        for index, row in enumerate(rows if isinstance(rows, list) else [rows]):
            yield f"memory {index + 1}", partial(_mem0, row)


def _mem0(row: Any) -> Iterator[NewFact]:
    text = row.get("memory", row.get("text")) if isinstance(row, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        raise Unreadable("it says nothing")
    subject = str(row.get("user_id") or row.get("agent_id") or "user")
    id = str(row.get("id") or pam.content_hash(f"{subject} {text}"))
    known: dict[str, Any] = {
        "metadata": {"mem0": mapping(row.get("metadata"))},
        "idempotency_key": id,
    }
    at, tags = utc_instant(row.get("created_at")), words(row.get("categories"))
    yield NewFact(subject, own_predicate("noted", id), text, tags=tags, said_at=at, **known)


def is_mcp_memory(first: bytes) -> bool:
    """Whether a file with this first line is the memory of the MCP reference server."""
    try:
        return mapping(json.loads(first)).get("type") in ("entity", "relation")
    except (ValueError, RecursionError):
        return False


def _read_mcp_memory(source: Source) -> Reading:
    """Read entities with their observations, and relations, one a line."""
    with source.file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield f"line {number}", partial(_graph_line, line)


def _graph_line(line: bytes) -> Iterator[NewFact]:
    row = json.loads(line)
    if row["type"] == "relation":
        start, relation, end = row["from"], row["relationType"], row["to"]
        yield NewFact(start, own_predicate(relation, end), f"{start} {relation} {end}")
    elif row["type"] == "entity":
        name, kind = row["name"], row["entityType"]
        yield NewFact(name, "is a", kind)
        for text in items.text_list(row["observations"]):
            yield NewFact(name, own_predicate("observed", digest(text)), text, tags=(kind,))
    else:
        raise Unreadable(f"its type is {row['type']!r:.40}; valid are entity and relation")


_CLAUDE_MEM = {
    "observations": ("title", "subtitle", "narrative", "text"),
    "session_summaries": (
        "request", "investigated", "learned", "completed", "next_steps", "notes",
    ),
    "directives": ("content",),
}  # fmt: skip
"""The tables of claude-mem that are read, and their columns of text."""


def _read_claude_mem(source: Source) -> Reading:
    """Read what claude-mem drew from sessions; its database is not changed."""
    address = f"{source.file.resolve().as_uri()}?mode=ro"
    with translated_errors(), closing(sqlite3.connect(address, uri=True)) as database:
        database.row_factory = sqlite3.Row
        listed = database.execute("select name from sqlite_master where type = 'table'")
        tables = {str(row["name"]) for row in listed}
        if "observations" not in tables:
            raise InvalidInput(f"{source.file.name}: found no observations; valid is claude-mem.db")
        for table in sorted(tables & _CLAUDE_MEM.keys()):
            query = f"select * from {table} order by id"  # noqa: S608  one of three names
            for row in map(dict, database.execute(query)):
                yield f"{table} {row['id']}", partial(_drawn, table, row, source.butler)


def _drawn(table: str, row: Mapping[str, Any], butler: str) -> Iterator[New]:
    """Read an observation, the summary of a session, or a rule of the user."""
    texts = [(name, row[name]) for name in _CLAUDE_MEM[table] if row.get(name)]
    if table == "session_summaries":
        texts = [(name, f"{name.replace('_', ' ')}: {text}") for name, text in texts]
    stated = [f"- {fact}" for fact in items.text_list(json.loads(row.get("facts") or "[]"))]
    if row.get("status", "active") != "active":
        raise Unreadable(f"it is {row['status']}")
    content = "\n".join([*(str(text) for _, text in texts), *stated])
    about = {name: row.get(name) for name in ("project", "type", "memory_session_id")}
    at = utc_instant(row.get("created_at"))
    is_rule = table == "directives"
    yield (NewRule(content, metadata=about, said_at=at) if is_rule
           else NewEpisode(content, butler, metadata=about, said_at=at))  # fmt: skip


_FRONT = re.compile(r"\A---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_FRONT_LINE = re.compile(r"^(title|permalink):(.*)$", re.MULTILINE)
_CONTEXT = r"(?:(?<![ \t])[ \t]++\(([^()]*)\))?$"
_STATEMENT = re.compile(
    r"^[ \t]*[-*+][ \t]++(?:\[(?![ xX/-]?\])([^\[\]()]+)\][ \t]++(\S.*?)"
    rf"|([^\[]*)\[\[([^\]]+)\]\]){_CONTEXT}"
)
_TAG = re.compile(r"(?<!\S)#([^\s#]+)")


def _read_markdown(source: Source) -> Reading:
    """Read a Markdown file, or all of a folder; a note of basic-memory has a permalink."""
    for file in documents.markdown_files(source.file):
        name = file.name if source.file.is_file() else file.relative_to(source.file).as_posix()
        yield name, partial(_markdown, file, name, source)


def _markdown(file: Path, name: str, source: Source) -> Iterator[New]:
    text = documents.read_text(file)
    front = _FRONT.match(text)
    lines = _FRONT_LINE.findall(front[1]) if front else []
    known = {name: value.strip().strip("\"'") for name, value in lines}
    if front is None or not (known.get("permalink") or source.format == "basic-memory"):
        yield from documents.memories(name, text, source.butler, {})
        return
    title, about = known.get("title") or file.stem, {"permalink": known.get("permalink") or name}
    rest = list[str]()
    for line in text[front.end() :].splitlines():
        if found := _STATEMENT.match(line.rstrip(" \t")):
            yield _stated(found, title, about)
        else:
            rest.append(line)
    yield from documents.memories(name, "\n".join(rest), source.butler, about)


def _stated(found: re.Match[str], title: str, about: dict[str, Any]) -> NewFact:
    """Return an observation or a relation of a note as a fact about its title."""
    category, text, relation, end, context = found.groups()
    word, id = (
        (category.strip(), digest(text)) if category else (relation.strip() or "relates_to", end)
    )
    content = text if category else f"{title} {word} {end}"
    more: dict[str, Any] = {"metadata": {**about, "context": context}, "origin": Origin.DOCUMENT}
    return NewFact(
        title, own_predicate(word, id), content, tags=tuple(_TAG.findall(content)), **more
    )


def _read_hindsight(source: Source) -> Reading:
    """Read the archive of a bank: its documents, the facts drawn from them, its observations."""
    for path, member in source.members.items():
        if "source_bank_id" in mapping(member):
            continue
        id = str(mapping(member).get("id") or path)
        if not isinstance(member, list):
            yield path, partial(_bank_text, member, source.butler)
        rows = member if isinstance(member, list) else mapping(member).get("facts") or ()
        for index, row in enumerate(rows if isinstance(rows, list | tuple) else [rows]):
            yield f"{path} fact {index + 1}", partial(_bank_fact, row, id)


def _bank_text(document: Any, butler: str) -> Iterator[NewEpisode]:
    if isinstance(document, Unreadable):
        raise document
    chunks = [str(chunk["chunk_text"]) for chunk in document.get("chunks") or ()]
    known: dict[str, Any] = {"metadata": {"document": document["id"]}, "origin": Origin.DOCUMENT}
    at = utc_instant(document.get("created_at"))
    for piece in documents.pieces(document.get("original_text") or "\n".join(chunks)):
        yield NewEpisode(piece, butler, said_at=at, **known)


def _bank_fact(row: Any, document: str) -> Iterator[NewFact]:
    text, entities, kind = row["text"], words(row.get("entities")), row.get("fact_type")
    id = str(row.get("source_id") or digest(document, text))
    at = next(filter(None, map(row.get, ("mentioned_at", "event_date", "occurred_start"))), None)
    about = {"document": document, "context": row.get("context"), "entities": list(entities)}
    known: dict[str, Any] = {
        "metadata": about,
        "idempotency_key": id,
        "tags": words(row.get("tags")),
    }
    subject, predicate = (*entities, "user")[0], own_predicate(kind or "observed", id)
    yield NewFact(subject, predicate, text, said_at=utc_instant(at), **known)


READERS: Mapping[str, Callable[[Source], Reading]] = {
    "butlers": export_memories.read_export,
    "pam": _read_pam,
    "chatgpt": _read_conversations,
    "claude": _read_claude,
    "mem0": _read_mem0,
    "markdown": _read_markdown,
    "basic-memory": _read_markdown,
    "mcp-memory": _read_mcp_memory,
    "claude-mem": _read_claude_mem,
    "hindsight": _read_hindsight,
}
"""For each format, what reads its items."""
