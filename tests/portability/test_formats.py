"""What other products and files say, as it comes in; and what ours says to them."""

import hashlib
import json
import sqlite3
import zipfile
from contextlib import closing

import pytest

from butlers.errors import InvalidInput
from butlers.memory.model import NewEpisode, NewFact, NewRule
from butlers.portability import documents, pam
from butlers.portability.conversations import Unreadable, read
from butlers.portability.formats import recognised
from butlers.portability.items import Source, read_items
from butlers.portability.native import check_lines, read_rows
from butlers.portability.readers import READERS
from butlers.sessions.privacy import ANY_SESSION

CLAUDE_MD = """\
The API is written in Go.

# Style
- Always run `make check`.
- Use tabs
- The linter is golangci.
- Is this a rule?
```
# no heading
- never a rule
```
## Why
Because.
"""


def node(role, text, parent, at=1.7e9, **metadata):
    content = {"content_type": "text", "parts": [text, {"image": 1}]}
    message = {"author": {"role": role}, "content": content, "create_time": at}
    return {"message": {**message, "metadata": metadata}, "parent": parent, "children": []}


def test_a_conversation_of_chatgpt_is_the_way_to_where_it_stands_now():
    mapping = {
        "root": {"message": None, "parent": None, "children": ["a"]},
        "a": node("user", "Hello", "root"),
        "other": node("assistant", "an answer thrown away", "a"),
        "b": node("assistant", "Hi", "a", 1.7e9 + 1),
        "c": node("tool", "a result", "b"),
        "d": node("user", "hidden", "c", is_visually_hidden_from_conversation=True),
        "e": node("user", "Bye", "d", None),
    }
    found = read("chatgpt", {"id": "1", "title": "T", "mapping": mapping, "current_node": "e"})
    assert (found.id, found.title) == ("1", "T")
    assert [(one.speaker, one.text) for one in found.said.said] == [
        ("user", "Hello"), ("assistant", "Hi"), ("user", "Bye"),
    ]  # fmt: skip
    assert [one.at for one in found.said.said] == sorted(one.at for one in found.said.said)
    mapping["a"]["parent"] = "e"  # a circle ends
    assert read("chatgpt", {"id": "1", "mapping": mapping}).said.said


def test_a_conversation_of_claude_is_read_by_its_parts_or_its_text():
    parts = [{"type": "text", "text": "Hi"}, {"type": "tool_use", "text": "no"}]
    told = [
        {"sender": "human", "text": "Hello", "created_at": "2025-01-01T10:00:00Z"},
        {"sender": "assistant", "content": parts, "created_at": "not a time"},
        "nonsense",
    ]
    found = read("claude", {"uuid": "1", "name": "N", "chat_messages": told})
    assert [(one.speaker, one.text) for one in found.said.said] == [
        ("user", "Hello"), ("assistant", "Hi"),
    ]  # fmt: skip


@pytest.mark.parametrize("told", [1, {}, {"id": "1"}, {"id": "1", "mapping": []}])
@pytest.mark.parametrize("source", ["chatgpt", "claude"])
def test_what_is_no_conversation_says_so(source, told):
    with pytest.raises(Unreadable):
        read(source, told)


def read_all(tmp_path, format, told, name="a.json"):
    """Every item of a file with this content, as an import reads it."""
    file = tmp_path / name
    file.write_bytes(told if isinstance(told, bytes) else json.dumps(told).encode())
    source = Source(file, format, "general", ANY_SESSION)
    return list(read_items(READERS[format](source), source))


def contents(found):
    return [content for _, content in found]


@pytest.mark.parametrize(
    "wrong",
    [
        {"current_node": ["a list"]},
        {"mapping": {"a": {"parent": {}, "message": {"content": {"parts": 7}}}}},
        {"mapping": {"a": {"parent": ["x"], "children": []}}},
    ],
)
def test_a_malformed_conversation_is_skipped_and_no_traceback(tmp_path, wrong):
    whole = {"id": "1", "mapping": {"a": node("user", "Hello", None)}}
    before, fault, after = contents(read_all(tmp_path, "chatgpt", [whole, whole | wrong, whole]))
    assert before.said.said and after.said.said
    assert fault.startswith("it is malformed")


def test_memories_of_mem0_keep_their_ids_whole_and_need_none(tmp_path):
    def facts(*rows):
        return contents(read_all(tmp_path, "mem0", list(rows)))

    ids = [f"0190a3c4-7e1{number}-7000-8000-000000000000" for number in range(3)]
    found = facts(*({"id": id, "memory": f"fact of {id}"} for id in ids))
    assert len({(one.subject, one.predicate) for one in found}) == 3
    assert all(id in one.predicate for id, one in zip(ids, found, strict=True))
    assert [one.idempotency_key for one in found] == [f"import:mem0:{id}" for id in ids]
    long = facts({"id": "x" * 300 + "1", "memory": "a"}, {"id": "x" * 300 + "2", "memory": "b"})
    assert len({one.predicate for one in long}) == len({one.idempotency_key for one in long}) == 2
    assert all(len(one.predicate) <= 100 for one in long)
    # Two files without ids: what is in both is one, and nothing else is dropped.
    first, second = facts({"memory": "Likes tea"}), facts({"memory": "Has a dog"})
    assert first[0].idempotency_key != second[0].idempotency_key
    assert first[0].predicate != second[0].predicate
    assert facts({"memory": "Likes tea"})[0].idempotency_key == first[0].idempotency_key


ODD = [7, None, [], {}, "text", {"memory": {}}, {"text": 7}, {"content": [1]}, {"type": []}]
# A file of each format with one whole item and one more.
WITH = {
    "pam": lambda odd: {"schema": pam.SCHEMA, "memories": [{"content": "A"}, odd]},
    "mem0": lambda odd: [{"memory": "A"}, odd],
    "chatgpt": lambda odd: [{"id": "1", "mapping": {"a": node("user", "A", None)}}, odd],
    "claude": lambda odd: [{"uuid": "1", "chat_messages": [{"sender": "human", "text": "A"}]}, odd],
    "hindsight": lambda odd: {"id": "1", "original_text": "A", "facts": [odd]},
    "mcp-memory": lambda odd: b"".join(
        json.dumps(row).encode() + b"\n"
        for row in ({"type": "entity", "name": "A", "entityType": "b", "observations": []}, odd)
    ),
}


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("format", WITH)
def test_one_odd_item_of_any_format_costs_that_item_alone(tmp_path, format, odd):
    first, *rest = contents(read_all(tmp_path, format, WITH[format](odd)))
    assert not isinstance(first, str)
    assert rest and all(isinstance(one, str) and one for one in rest)


def test_the_memory_of_the_mcp_reference_server_is_facts_of_its_entities(tmp_path):
    lines = (
        b'{"type":"entity","name":"Ida","entityType":"person","observations":["Speaks Danish",'
        b'"Was born in Ribe"]}\n'
        b"{broken\n\n"
        b'{"type":"relation","from":"Ida","to":"Acme","relationType":"works_at"}\n'
        b'{"type":"relation","from":"Ida","to":"Borg","relationType":"works_at"}\n'
    )
    found = read_all(tmp_path, "mcp-memory", lines, "memory.jsonl")
    assert [place for place, _ in found] == ["line 1"] * 3 + ["line 2", "line 4", "line 5"]
    kind, danish, born, broken, acme, borg = contents(found)
    assert (kind.subject, kind.predicate, kind.content) == ("Ida", "is a", "person")
    assert (danish.content, danish.tags, danish.origin) == (
        "Speaks Danish",
        ("person",),
        "inferred",
    )
    assert broken.startswith("it is malformed")
    # None of them takes another's place: each has a predicate of its own.
    assert len({one.predicate for one in (kind, danish, born, acme, borg)}) == 5
    assert acme.content == "Ida works_at Acme"
    assert recognised(tmp_path / "memory.jsonl") == "mcp-memory"


# The tables as claude-mem makes them, with the columns that are read here.
CLAUDE_MEM = """
create table observations (id integer primary key, memory_session_id text, project text, text text,
  type text, title text, subtitle text, facts text, narrative text, created_at text);
create table session_summaries (id integer primary key, memory_session_id text, project text,
  request text, investigated text, learned text, completed text, next_steps text, notes text,
  created_at text);
create table directives (id integer primary key, project text, content text, status text,
  created_at text);
insert into observations values
  (1, 's', 'shop', null, 'decision', 'Use WAL', null, '["It is faster"]', 'Readers never wait.',
   '2026-01-05T10:00:00.000Z'),
  (2, 's', 'shop', null, 'bugfix', 'Broken', null, '{', null, null),
  (3, 's', 'shop', null, 'bugfix', null, null, null, null, null);
insert into session_summaries values (1, 's', 'shop', 'Make it fast', null, 'WAL helps', null,
  'Measure', null, '2026-01-05T11:00:00.000Z');
insert into directives values (1, null, 'Answer briefly', 'active', null),
  (2, null, 'Answer at length', 'archived', null);
"""


def test_the_database_of_claude_mem_is_read_and_not_changed(tmp_path):
    file = tmp_path / "claude-mem.db"
    with closing(sqlite3.connect(file)) as database:
        database.executescript(CLAUDE_MEM)
    before = file.read_bytes()
    assert recognised(file) == "claude-mem"
    found = dict(read_all(tmp_path, "claude-mem", before, file.name))
    assert file.read_bytes() == before
    assert found["observations 1"].content == "Use WAL\nReaders never wait.\n- It is faster"
    assert found["observations 1"].metadata["project"] == "shop"
    assert found["observations 1"].said_at.isoformat() == "2026-01-05T10:00:00+00:00"
    assert found["observations 2"].startswith("it is malformed")
    assert found["observations 3"] == "it says nothing"
    summary = found["session_summaries 1"].content
    assert summary == "request: Make it fast\nlearned: WAL helps\nnext steps: Measure"
    assert isinstance(found["directives 1"], NewRule)
    assert found["directives 2"] == "it is archived"
    # Ids are numbers that begin at 1 in each database, so they do not say what is known.
    other = before.replace(b"Readers never wait.", b"Writers never wait.")
    again = dict(read_all(tmp_path, "claude-mem", other, file.name))
    assert again["observations 1"].idempotency_key != found["observations 1"].idempotency_key
    assert again["directives 1"].idempotency_key == found["directives 1"].idempotency_key
    with closing(sqlite3.connect(tmp_path / "other.db")) as database:
        database.execute("create table poems (id integer)")
    with pytest.raises(InvalidInput, match="found no observations"):
        read_all(tmp_path, "claude-mem", (tmp_path / "other.db").read_bytes())


NOTE_OF_BASIC_MEMORY = b"""\
---
title: "Coffee"
tags: [brewing]
permalink: drinks/coffee
---
# Coffee
Notes on brewing.

## Observations
- [method] Pour over is clearer #brewing #filter (from a course)
- [method] Press is rounder
- [ ] Buy beans
- [a link](https://example.org)

## Relations
- requires [[Grinder]]
- [[Tea]]
- We met [[Ida]] there
"""


def test_a_note_of_basic_memory_is_facts_and_what_else_it_says(tmp_path):
    found = contents(read_all(tmp_path, "markdown", NOTE_OF_BASIC_MEMORY, "coffee.md"))
    facts = [one for one in found if isinstance(one, NewFact)]
    assert [(one.predicate.split()[0], one.content) for one in facts] == [
        ("method", "Pour over is clearer #brewing #filter"), ("method", "Press is rounder"),
        ("requires", "Coffee requires Grinder"), ("relates_to", "Coffee relates_to Tea"),
    ]  # fmt: skip
    assert facts[0].tags == ("brewing", "filter")
    assert facts[0].metadata["context"] == "from a course"
    assert facts[0].metadata["permalink"] == "drinks/coffee"
    assert len({one.predicate for one in facts}) == 4
    assert {one.subject for one in facts} == {"Coffee"}
    assert {one.origin for one in found} == {"document"}
    rest = "".join(one.content for one in found if isinstance(one, NewEpisode))
    for text in ("Notes on brewing.", "Buy beans", "[a link]", "We met [[Ida]] there"):
        assert text in rest
    assert "permalink" not in rest and "Press" not in rest
    other = NOTE_OF_BASIC_MEMORY.replace(b"permalink", b"link")
    plain = contents(read_all(tmp_path, "markdown", other, "coffee.md"))
    assert not [one for one in plain if isinstance(one, NewFact)]


def test_an_archive_of_hindsight_is_its_documents_and_its_facts(tmp_path):
    fact = {"text": "Ida moved to Ribe", "fact_type": "world", "entities": ["Ida", "Ribe"]}
    fact |= {"mentioned_at": "2026-01-05T10:00:00+00:00", "tags": ["home"]}
    document = {"id": "doc/1", "original_text": "Ida: I moved to Ribe.", "facts": [fact, {}]}
    with zipfile.ZipFile(tmp_path / "bank.zip", "w") as packed:
        packed.writestr("manifest.json", '{"schema_version": 1, "source_bank_id": "me"}')
        packed.writestr("documents/000000.json", json.dumps(document))
        packed.writestr("documents/000001.json", "{")
        packed.writestr("observations.json", '[{"source_id": "o1", "text": "Ida likes the sea"}]')
    assert recognised(tmp_path / "bank.zip") == "hindsight"
    found = read_all(tmp_path, "hindsight", (tmp_path / "bank.zip").read_bytes(), "bank.zip")
    text, moved, fault, broken, sea = contents(found)
    assert (text.content, text.origin, text.butler) == (
        "Ida: I moved to Ribe.",
        "document",
        "general",
    )
    assert (moved.subject, moved.content, moved.tags) == ("Ida", "Ida moved to Ribe", ("home",))
    assert moved.said_at.isoformat() == "2026-01-05T10:00:00+00:00"
    assert fault.startswith("it is malformed") and broken.startswith("found no JSON")
    assert (sea.subject, sea.idempotency_key) == ("user", "import:hindsight:o1")


@pytest.mark.parametrize("odd", ["Speaks Danish", ["Speaks Danish", 7], [None], {"a": "b"}, 7])
def test_observations_that_are_no_texts_are_told_instead_of_dropped(tmp_path, odd):
    row = {"type": "entity", "name": "Ida", "entityType": "person", "observations": odd}
    (told,) = contents(read_all(tmp_path, "mcp-memory", json.dumps(row).encode()))
    assert told.startswith("found ") and told.endswith("valid is a list of texts")


def test_a_damaged_page_of_a_database_costs_what_stands_on_it_and_is_told(tmp_path):
    file = tmp_path / "claude-mem.db"
    with closing(sqlite3.connect(file)) as database:
        database.executescript(CLAUDE_MEM)
        many = [(f"Title {number}", "n" * 2000) for number in range(300)]
        into = "insert into observations (memory_session_id, title, narrative) values ('s', ?, ?)"
        database.executemany(into, many)
        database.commit()
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 3 * 4096] = b"\xaa" * 3 * 4096
    found = read_all(tmp_path, "claude-mem", bytes(content), file.name)
    whole = [one for _, one in found if not isinstance(one, str)]
    assert 100 < len(whole) < 300 and any("Title 99\n" in one.content for one in whole)
    place, why = found[-1]
    assert place.startswith("what follows observations 1")
    assert "it cannot be read" in why and "malformed" in why


def test_a_conversation_whose_branch_leads_nowhere_is_read_from_where_it_can_be(tmp_path):
    first, second = node("user", "Hello", "b"), node("assistant", "Hi", "a")
    circle = {"a": first | {"children": ["b"]}, "b": second | {"children": ["a"]}}
    exported = [
        {"id": "1", "mapping": circle, "current_node": "b"},
        {"id": "2", "mapping": circle},
        {"id": "3", "mapping": {"a": node("user", "Hello", "gone")}, "current_node": "gone"},
        {"id": "4", "mapping": {"a": node("user", "Hello", "a")}, "current_node": "a"},
        {"id": "5", "mapping": {}},
        {"id": "6", "mapping": {"a": node("system", "You are", None)}, "current_node": "a"},
    ]
    *told, empty, system = contents(read_all(tmp_path, "chatgpt", exported))
    assert [len(talk.said.said) for talk in told] == [2, 2, 1, 1]
    assert empty == system == "it says nothing"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_note_is_read_as_editors_on_windows_write_it(tmp_path, encoding):
    text = NOTE_OF_BASIC_MEMORY.decode().replace("rounder", "ründer").replace("\n", "\r\n")
    found = contents(read_all(tmp_path, "markdown", text.encode(encoding), "coffee.md"))
    assert "Press is ründer" in [one.content for one in found if isinstance(one, NewFact)]
    assert not [one for one in found if "\ufeff" in one.content]


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"\0" * 5000])
def test_a_file_that_is_no_text_is_told(tmp_path, content):
    (told,) = contents(read_all(tmp_path, "markdown", content, "picture.md"))
    assert told == "it is malformed (found no text)"


LINE = b'{"type":"entity","name":"Ida","entityType":"person","observations":["Sails"]}'


@pytest.mark.parametrize(
    "content",
    [b"\xef\xbb\xbf" + LINE, LINE + b"\r\n\r\n", b"[" * 200_000 + b"\n" + LINE,
     b"\0\xff\xfe garbage\n" + LINE, b'"' + b"x" * 3_000_000 + b'"\n' + LINE],
    ids=["mark", "crlf", "nested", "binary", "huge"],
)  # fmt: skip
def test_a_line_that_cannot_be_read_costs_no_other(tmp_path, content):
    found = contents(read_all(tmp_path, "mcp-memory", content, "memory.jsonl"))
    assert [one.content for one in found if not isinstance(one, str)] == ["person", "Sails"]


def test_what_is_private_is_named_as_skipped_and_not_told(tmp_path):
    rows = [{"memory": "<private>my pin</private>"}, {"memory": "Likes <private>a</private> tea"}]
    first, second = contents(read_all(tmp_path, "mem0", rows))
    assert first == "it is private"
    assert second.content.split() == ["Likes", "tea"]


def test_markdown_is_rules_and_what_was_read():
    found = list(documents.memories("CLAUDE.md", CLAUDE_MD, "general", {}))
    rules = [one.content for one in found if isinstance(one, NewRule)]
    assert rules == ["Always run make check.", "Use tabs"]
    episodes = [one for one in found if isinstance(one, NewEpisode)]
    assert [one.content.partition("\n")[0] for one in episodes] == [
        "CLAUDE.md", "CLAUDE.md › Style", "CLAUDE.md › Style › Why",
    ]  # fmt: skip
    assert {one.origin for one in found} == {"document"}
    again = documents.memories("CLAUDE.md", CLAUDE_MD, "general", {})
    assert [one.idempotency_key for one in again] == [one.idempotency_key for one in found]
    long = "\n\n".join(["word " * 700] * 5) + "x" * 20_000
    assert all(len(one.content) < 7_000 for one in documents.memories("a.md", long, "general", {}))


def test_a_memory_of_pam_is_ours_by_its_type(tmp_path):
    told = [
        {"id": "1", "type": "instruction", "content": "Be brief"},
        {"id": "2", "type": "context", "content": "We met", "temporal": {"created_at": "x"}},
        {"id": "3", "type": "preference", "content": "Likes tea", "tags": ["food"]},
        {"id": "4", "type": "fact", "content": "old", "status": "superseded"},
        {"id": "5", "type": "fact"},
        7,
    ]
    document = {"schema": pam.SCHEMA, "memories": told}
    found = read_all(tmp_path, "pam", document)
    rule, episode, fact, *skipped = contents(found)
    assert isinstance(rule, NewRule) and isinstance(episode, NewEpisode)
    assert isinstance(fact, NewFact)
    assert (fact.subject, fact.content, fact.tags) == ("user", "Likes tea", ("food",))
    assert {one.origin for one in (rule, episode, fact)} == {"inferred"}
    assert skipped == ["it is superseded", "it has no content", "it has no content"]
    assert [place for place, _ in found] == [f"memories[{index}]" for index in range(6)]
    for wrong in ([], {"schema": "other"}, {"schema": pam.SCHEMA, "memories": {}}):
        with pytest.raises(InvalidInput):
            read_all(tmp_path, "pam", wrong)


def test_hashes_of_pam_are_those_of_its_specification():
    assert pam.content_hash("  Likes\n TEA ") == pam.content_hash("likes tea")
    assert (
        pam.canonical({"b": [1, 0.5, None, True], "a": "é\n"})
        == '{"a":"é\\n","b":[1,0.5,null,true]}'
    )
    # By UTF-16 as the specification of canonical JSON sorts, not by code points.
    assert pam.canonical({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'


def written(file, *rows, end=None):
    told = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    digest = {"lines": len(rows), "sha256": hashlib.sha256(told).hexdigest()}
    file.write_bytes(told + json.dumps({"end": end or digest}).encode() + b"\n")
    return file


HEAD = {"butlers_export": {"version": 1, "kinds": {}}}
KNOWN = {"fact": ["id", "content"], "note": ["id"]}
ID = "0b50a9ac-411b-468a-8c3c-622da3bb90c5"


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([{"fact": {}}], "line 1: found 'fact'"),
        ([{"butlers_export": {"version": 9}}], "line 1: found version 9"),
        ([HEAD, {"poem": {}}], "line 2: found 'poem'"),
        ([HEAD, {"fact": {"id": ID, "new": 1}}], "line 2: fact has no 'new'"),
        ([HEAD, {"fact": {"id": "7"}}], "line 2: fact: its id is missing"),
        ([HEAD, {"fact": []}], "line 2: found '\\[\\]' for fact"),
        ([HEAD, {"a": 1, "b": 2}], "line 2: found b"),
        ([HEAD, 7], "line 2: found b'7"),
        ([HEAD, {"note": {"id": "1"}}], "line 2: a note needs"),
        ([HEAD, {"end": {}}, {"fact": {"id": ID}}], "line 3: found a line after the last one"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_before_anything_is_written(tmp_path, rows, why):
    with pytest.raises(InvalidInput, match=why):
        check_lines(written(tmp_path / "a", *rows), KNOWN)


def test_a_whole_file_is_counted_and_one_that_was_changed_is_noticed(tmp_path):
    rows = [HEAD, *[{"fact": {"id": ID, "content": "x"}}] * 3]
    file = written(tmp_path / "a", *rows)
    assert check_lines(file, KNOWN) == {"fact": 3}
    assert [one.number for one in read_rows(file)] == [2, 3, 4]
    file.write_bytes(file.read_bytes().replace(b'"x"', b'"y"', 1))
    with pytest.raises(InvalidInput, match="its hash differs"):
        check_lines(file, KNOWN)


def test_a_file_is_recognised_by_what_is_in_it(tmp_path):
    def saved(name, told):
        (tmp_path / name).write_text(json.dumps(told))
        return recognised(tmp_path / name)

    assert saved("a", HEAD) == "butlers"
    assert saved("b", {"schema": pam.SCHEMA}) == "pam"
    assert saved("c", {"results": [{"memory": "x"}]}) == "mem0"
    assert saved("d", [{"chat_messages": []}]) == "claude"
    (tmp_path / "e.md").write_text("# x")
    assert recognised(tmp_path / "e.md") == "markdown"
    with zipfile.ZipFile(tmp_path / "f.zip", "w") as packed:
        packed.writestr("user.json", "{}")
        packed.writestr("conversations.json", '[{"mapping": {}}]')
    assert recognised(tmp_path / "f.zip") == "chatgpt"
    for wrong in ([], {}, [1], "x"):
        with pytest.raises(InvalidInput):
            saved("g", wrong)
