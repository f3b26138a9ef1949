"""What other products and files say, as it comes in; and what ours says to them."""

import hashlib
import json
import zipfile

import pytest

from butlers.errors import InvalidInput
from butlers.memory.model import NewEpisode, NewFact, NewRule
from butlers.portability import documents, pam
from butlers.portability.conversations import Unreadable, read
from butlers.portability.foreign import READERS
from butlers.portability.formats import recognised
from butlers.portability.native import check_lines, read_rows

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


@pytest.mark.parametrize(
    "wrong",
    [
        {"current_node": ["a list"]},
        {"mapping": {"a": {"parent": {}, "message": {"content": {"parts": 7}}}}},
        {"mapping": {"a": {"parent": ["x"], "children": []}}},
    ],
)
def test_a_malformed_conversation_is_unreadable_and_no_traceback(wrong):
    whole = {"id": "1", "mapping": {"a": node("user", "Hello", None)}}
    assert read("chatgpt", whole).said.said
    with pytest.raises(Unreadable, match="it is malformed"):
        read("chatgpt", whole | wrong)


def test_memories_of_mem0_keep_their_ids_whole_and_need_none(tmp_path):
    def facts(*rows):
        return list(READERS["mem0"](tmp_path, {"a": list(rows)}, "general"))

    ids = [f"0190a3c4-7e1{number}-7000-8000-000000000000" for number in range(3)]
    found = facts(*({"id": id, "memory": f"fact of {id}"} for id in ids))
    assert len({(one.subject, one.predicate) for one in found}) == 3
    assert all(id in one.predicate for id, one in zip(ids, found, strict=True))
    long = facts({"id": "x" * 300 + "1", "memory": "a"}, {"id": "x" * 300 + "2", "memory": "b"})
    assert len({one.predicate for one in long}) == 2
    assert all(len(one.predicate) <= 100 for one in long)
    # Two files without ids: what is in both is one, and nothing else is dropped.
    first, second = facts({"memory": "Likes tea"}), facts({"memory": "Has a dog"})
    assert first[0].idempotency_key != second[0].idempotency_key
    assert first[0].predicate != second[0].predicate
    assert facts({"memory": "Likes tea"})[0].idempotency_key == first[0].idempotency_key


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


def test_a_memory_of_pam_is_ours_by_its_type():
    told = [
        {"id": "1", "type": "instruction", "content": "Be brief"},
        {"id": "2", "type": "context", "content": "We met", "temporal": {"created_at": "x"}},
        {"id": "3", "type": "preference", "content": "Likes tea", "tags": ["food"]},
        {"id": "4", "type": "fact", "content": "old", "status": "superseded"},
        {"id": "5", "type": "fact"},
        7,
    ]
    document = {"schema": pam.SCHEMA, "memories": told}
    rule, episode, fact, old, empty, none = pam.read_pam(document, "general")
    assert isinstance(rule, NewRule) and isinstance(episode, NewEpisode)
    assert isinstance(fact, NewFact)
    assert (fact.subject, fact.content, fact.tags) == ("user", "Likes tea", ("food",))
    assert [old, empty, none] == [
        "memories[3]: it is superseded", "memories[4]: it has no content",
        "memories[5]: it has no content",
    ]  # fmt: skip
    for wrong in ([], {"schema": "other"}, {"schema": pam.SCHEMA, "memories": {}}):
        with pytest.raises(InvalidInput):
            list(pam.read_pam(wrong, "general"))


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
