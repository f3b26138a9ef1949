"""The section of an instruction file: written, kept in step, taken out without a trace."""

from dataclasses import replace
from pathlib import Path

import pytest

from butlers.auth.rights import Project
from butlers.memory.flows import remember
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, NewEpisode, NewRule, Origin, PieceKind, Trust
from butlers.memory.operations import OperationContext
from butlers.sessions.project_section import (
    Section,
    SectionFile,
    refresh,
    remove_section,
    section_of,
    write_section,
)

TEXTS = ("", "# Rules\n\nBe kind.\n", "no newline at its end", "a\r\n\tb\r\n", "\n\n\n")


@pytest.fixture
async def ctx(memory: Memory) -> OperationContext:
    person = Lineage("acme", "cli", origin=Origin.OPERATOR)
    ctx = OperationContext(memory, person, project=Project(("personal",), "personal"))
    scope = await ctx.store_scope("")
    await remember.store_rule(memory, NewRule("Run the tests first", scope), person)
    await remember.store_rule(memory, NewRule("Of no project"), person)
    agent = replace(person, origin=Origin.AGENT, agent="codex")
    await remember.store_rule(memory, NewRule("Tried by nobody yet", scope), agent)
    low = replace(agent, ceiling=Trust.LOW)
    await remember.store_rule(memory, NewRule("From a stranger", scope), low)
    decided = NewEpisode(
        "We ship on Thursday", scope, piece=PieceKind.DECISION, metadata={"part": "p"}
    )
    await remember.store_episode(memory, decided, person)
    return ctx


@pytest.mark.parametrize("text", TEXTS)
async def test_a_section_that_was_taken_out_leaves_every_byte(
    ctx: OperationContext, tmp_path: Path, text: str
) -> None:
    file, section = tmp_path / "AGENTS.md", await section_of(ctx, "personal")
    file.write_bytes(text.encode())
    before = write_section(file, section, None)
    assert before is not None
    assert b"Thursday" in file.read_bytes()
    known = Section(str(file), "general", "acme", "personal", before)
    assert write_section(file, section, known) == before
    assert remove_section(file, before)
    assert (file.read_bytes() if text else file.exists()) == (text.encode() or False)
    assert not remove_section(file, before)


async def test_it_holds_what_was_tried_or_stated_and_is_decided(ctx: OperationContext) -> None:
    lines = [line for line in (await section_of(ctx, "personal")).splitlines() if line[:2] == "- "]
    assert lines == ["- Run the tests first", "- We ship on Thursday"]


async def test_it_is_kept_in_step_until_somebody_takes_the_marks_out(
    ctx: OperationContext, tmp_path: Path
) -> None:
    file, sections = tmp_path / "AGENTS.md", SectionFile(tmp_path / "sections.json")
    file.write_text("# Ours\n")
    before = write_section(file, await section_of(ctx, "personal"), None) or ""
    sections.put(str(file), Section(str(file), "general", "acme", "personal", before))
    scope = await ctx.store_scope("")
    await remember.store_rule(ctx.memory, NewRule("Never force-push", scope), ctx.lineage)
    await refresh(sections, "other", ctx)
    assert "force-push" not in file.read_text()
    await refresh(sections, "general", ctx)
    assert "- Never force-push\n" in file.read_text()
    file.write_text("# Ours, and nothing else\n")
    await refresh(sections, "general", ctx)
    assert (file.read_text(), sections.all()) == ("# Ours, and nothing else\n", [])
