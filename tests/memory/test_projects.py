"""Projects in the database: known again by whatever is left of them, and closed to each other."""

import asyncio

import pytest

from butlers.auth.rights import Project
from butlers.errors import InvalidInput, NotFound
from butlers.memory.flows import projects, recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.consolidation.run import run_consolidation
from butlers.memory.model import NewFact, NewRule, SearchMode
from butlers.memory.operations import OperationContext
from butlers.memory.policy import scopes
from memory.audit_stream import event_types, sizes
from memory.consolidation_stories import know, tell
from memory.scripted_model import ScriptedModel, answer, fact

SHOP = Project(("remote:host/shop", "repository:1"), "shop", "/work/shop")
FAMILY = Project(("repository:2",), "family", "/work/family")


async def scope_of(memory, project, lineage):
    return await projects.own_scope(memory, project, lineage)


async def found(memory, project, lineage, text="hazelnuts"):
    """What is found by somebody who works in a project."""
    scope = await OperationContext(memory, lineage, project=project).seen(None)
    rows = await recall.search_memories(
        memory, CandidateQuery(text, scope=scope), SearchMode.HYBRID, 50, lineage
    )
    return {row["content"] for row in rows}


async def test_a_project_is_known_again_by_any_of_its_keys(memory, lineage, stranger):
    shop = await scope_of(memory, SHOP, lineage)
    clone = Project(("remote:host/shop", "repository:9"), "other-name", "/elsewhere")
    assert await scope_of(memory, clone, lineage) == shop
    moved = Project(("remote:new-host/shop", "repository:9"), "shop", "/elsewhere")
    assert await scope_of(memory, moved, lineage) == shop
    fork = Project(("remote:host/fork", "repository:7"), "shop", "/fork")
    assert await scope_of(memory, fork, lineage) != shop
    pushed = Project(("remote:host/family", *FAMILY.keys), "family", "/work/family")
    assert await scope_of(memory, FAMILY, lineage) == await scope_of(memory, pushed, lineage)
    [told] = [one for one in await projects.find_projects(memory, lineage) if one["name"] == "shop"
              and "repository:9" in one["keys"]]  # fmt: skip
    assert told["places"] == ["/work/shop", "/elsewhere"]
    assert await projects.find_projects(memory, stranger) == []


async def test_an_address_that_is_another_projects_wins_over_the_directory(memory, lineage):
    shop, family = await scope_of(memory, SHOP, lineage), await scope_of(memory, FAMILY, lineage)
    turned = Project(("remote:host/shop", *FAMILY.keys), "family")
    assert await scope_of(memory, turned, lineage) == shop != family


@pytest.mark.contract("L41")
async def test_whoever_reads_in_a_project_needs_no_write(memory, lineage, owner, clock):
    shop = await scope_of(memory, SHOP, lineage)
    clock.advance(hours=1)
    await owner.execute("revoke insert, update on projects from butlers_runtime")
    try:
        assert await projects.seen_scopes(memory, SHOP, lineage) == (shop,)
        family = await projects.seen_scopes(memory, FAMILY, lineage)
        await memory.uses.settle_all()
    finally:
        await owner.execute("grant insert, update on projects to butlers_runtime")
    assert [one["name"] for one in await projects.find_projects(memory, lineage)] == [SHOP.name]
    assert await projects.seen_scopes(memory, FAMILY, lineage) == family
    told = await projects.find_projects(memory, lineage)
    assert {one["name"] for one in told} == {SHOP.name, FAMILY.name}
    assert (await scope_of(memory, FAMILY, lineage),) == family


async def test_many_who_meet_a_project_at_once_meet_one(memory, lineage):
    met = await asyncio.gather(*(scope_of(memory, SHOP, lineage) for _ in range(8)))
    assert len(set(met)) == 1
    assert len(await projects.find_projects(memory, lineage)) == 1


@pytest.mark.contract("L15")
async def test_other_projects_do_not_enter_a_search(memory, lineage):
    """However many there are, they push nothing out."""
    shop, family = await scope_of(memory, SHOP, lineage), await scope_of(memory, FAMILY, lineage)
    for number in range(120):
        await tell(memory, lineage, f"hazelnuts {number}", shop)
    await tell(memory, lineage, "hazelnuts make Ida ill", family)
    await tell(memory, lineage, "hazelnuts are sold out", "general")
    await know(memory, lineage, "Ida", "eats", "hazelnuts never", scope="global")
    everywhere = {"hazelnuts are sold out", "hazelnuts never"}
    assert await found(memory, FAMILY, lineage) == everywhere | {"hazelnuts make Ida ill"}
    assert await found(memory, Project(("directory:5",), "new"), lineage) == everywhere
    assert "hazelnuts make Ida ill" not in await found(memory, SHOP, lineage)


@pytest.mark.contract("L32")
async def test_what_is_drawn_from_a_projects_episodes_is_the_projects(memory, lineage, owner):
    family = await scope_of(memory, FAMILY, lineage)
    known = await know(memory, lineage, "Ida", "allergy", "none known", scope="global")
    heard = "Ida is allergic to hazelnuts and carries an EpiPen. Never bake hazelnuts for her."
    source = await tell(memory, lineage, heard, family)
    await tell(memory, lineage, "Ida is allergic to nothing in the shop", "general")
    update = fact("Ida", "allergy", "hazelnuts", target_id=str(known))
    drawn = answer(
        new_facts=[fact("Ida", "carries", "an EpiPen")],
        updated_facts=[update],
        new_rules=[{"content": "Never bake hazelnuts"}],
    )
    model = ScriptedModel(lambda prompt: drawn if "hazelnuts" in prompt else answer())
    report = await run_consolidation(memory, model, lineage)
    assert not report.errors and len(model.prompts) == 2
    assert not any("hazelnuts" in one and "in the shop" in one for one in model.prompts)
    rows = await owner.fetch(
        "select content, scope from facts union all select content, scope from rules"
    )
    assert {tuple(row) for row in rows} == {
        ("none known", "global"),
        ("an EpiPen", family),
        ("hazelnuts", family),
        ("Never bake hazelnuts", family),
    }
    assert await owner.fetchval("select validity from facts where id = $1", known) == "active"
    said = NewFact("Ida", "shoe size", "38", scope="global", source_episode_id=source)
    await remember.store_fact(memory, said, lineage)
    await remember.store_rule(memory, NewRule("Ask", source_episode_id=source), lineage)
    assert await owner.fetchval("select scope from facts where content = '38'") == family
    assert await owner.fetchval("select scope from rules where content = 'Ask'") == family


async def test_sharing_and_moving_change_no_memory_and_can_be_taken_back(memory, lineage, owner):
    shop, family = await scope_of(memory, SHOP, lineage), await scope_of(memory, FAMILY, lineage)
    await tell(memory, lineage, "hazelnuts make Ida ill", family)
    before = await sizes(owner)
    secret = {"hazelnuts make Ida ill"}
    for shared in (True, False):
        told = await projects.share_project(memory, "family", shared, lineage)
        assert told["shared"] is shared
        assert (await found(memory, SHOP, lineage) == secret) is shared
    await projects.move_project(memory, "family", shop.removeprefix(scopes.PROJECT), lineage)
    assert await found(memory, SHOP, lineage) == secret
    assert await scope_of(memory, FAMILY, lineage) == shop
    await projects.move_project(memory, "shop", "family", lineage)
    assert (
        await scope_of(memory, SHOP, lineage) == await scope_of(memory, FAMILY, lineage) == family
    )
    await projects.move_project(memory, "shop", "shop", lineage)
    assert await scope_of(memory, SHOP, lineage) == shop
    assert await found(memory, SHOP, lineage) == set()
    told = await event_types(owner)
    assert told[1:] == ["project_shared"] * 2 + ["project_moved"] * 3
    assert await sizes(owner) == before | {"memory_events": 6}


async def test_a_project_nobody_knows_or_several_are_called_is_refused(memory, lineage, stranger):
    await scope_of(memory, SHOP, lineage)
    await scope_of(memory, Project(("repository:3",), "shop"), lineage)
    with pytest.raises(NotFound, match="butlers project list"):
        await projects.get_project(memory, "nothing", lineage)
    with pytest.raises(InvalidInput, match="the name of several"):
        await projects.share_project(memory, "shop", True, lineage)
    with pytest.raises(NotFound):
        await projects.share_project(memory, "shop", True, stranger)


async def test_another_projects_scope_cannot_be_asked_for_from_within_one(memory, lineage):
    shop, family = await scope_of(memory, SHOP, lineage), await scope_of(memory, FAMILY, lineage)
    ctx = OperationContext(memory, lineage, project=SHOP)
    with pytest.raises(InvalidInput, match="valid are global"):
        await ctx.seen(family)
    assert scopes.several(await ctx.seen("general\x1f" + family)) == [f"general {family}", shop]
    assert await OperationContext(memory, lineage).seen(None) is None


async def test_what_was_moved_into_a_project_moves_on_with_it(memory, lineage):
    barn = Project(("repository:3",), "barn", "/work/barn")
    for project in (SHOP, FAMILY, barn):
        await scope_of(memory, project, lineage)
    shop = await scope_of(memory, SHOP, lineage)
    await tell(memory, lineage, "hazelnuts are sold out", shop)
    await projects.move_project(memory, "shop", "family", lineage)
    await projects.move_project(memory, "family", "barn", lineage)
    assert await found(memory, barn, lineage) == {"hazelnuts are sold out"}
    assert await scope_of(memory, SHOP, lineage) == await scope_of(memory, barn, lineage)
