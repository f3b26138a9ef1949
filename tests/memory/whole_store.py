"""A store that has something of every kind, with one person named all over it."""

import json

from butlers.auth.rights import Project
from butlers.memory.flows import (
    conflicts,
    correct,
    entities,
    feedback,
    links,
    projects,
    recall,
    remember,
)
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.consolidation.run import run_consolidation
from butlers.memory.flows.context import ContextQuery, build_context
from butlers.memory.flows.lifecycle import episode_retention
from butlers.memory.model import Holds, NewEpisode, NewFact, NewRule
from memory.consolidation_stories import with_settings
from memory.scripted_model import ScriptedModel, answer, fact

READ = "update episodes set consolidated = true, consolidation_status = 'consolidated'"
TABLES = (
    "select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid "
    "where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace "
    "and a.attname = 'tenant_id' order by c.relname"
)


async def tables(owner):
    """Every table that has rows of tenants."""
    return [row["relname"] for row in await owner.fetch(TABLES)]


async def empty(owner):
    """Nothing is left of anybody, history included."""
    await owner.execute("set session_replication_role = replica")
    await owner.execute(f"truncate {', '.join(await tables(owner))} cascade")
    await owner.execute("set session_replication_role = default")


async def fill(memory, lineage, owner, clock, name="Ida"):
    """Told, asked, corrected, consolidated, reviewed, marked, linked and binned."""
    gone = NewEpisode(f"{name} rang twice", "general", idempotency_key="rang")
    await remember.store_episode(memory, gone, lineage)
    await owner.execute(f"{READ} where idempotency_key = 'rang'")
    clock.advance(days=8)
    await episode_retention.run_episode_cleanup(memory, lineage)
    ida = await entities.create_entity(memory, name, "person", [f"Mrs {name}sen"], None, lineage)
    await entities.create_entity(memory, "Acme", "organization", None, {"boss": name}, lineage)
    scope = await projects.own_scope(
        memory, Project(("repository:7",), "site", f"/home/{name.lower()}/site"), lineage
    )
    lives = NewFact(name, "lives in", "Rome", entity_id=ida, metadata={"n": 0.1, "deep": [1, {}]})
    rome = await remember.store_fact(memory, lives, lineage)
    await correct.correct_fact(memory, rome.id, "Milan", lineage)
    turin = NewFact(name, "city", "Turin", entity_id=ida)
    assert (await remember.store_fact(memory, turin, lineage)).conflicts
    await conflicts.set_predicate(memory, f"{name} calls it", Holds.ONE, lineage)
    tea = await remember.store_fact(memory, NewFact("Bob", "drinks", "tea", scope=scope), lineage)
    flat = await remember.store_fact(memory, NewFact("flat", "owner", "is hers"), lineage)
    greet = await remember.store_rule(memory, NewRule(f"Greet {name} first"), lineage)
    brief = await remember.store_rule(memory, NewRule("Be brief"), lineage)
    await feedback.mark_helpful(memory, greet.id, lineage)
    await feedback.mark_harmful(memory, brief.id, f"{name} was hurt", lineage)
    await links.create_link(memory, "fact", tea.id, "rule", brief.id, "supports", lineage)
    await remember.store_episode(memory, NewEpisode("The café is «zu»; naïve?", "general"), lineage)
    await _read(
        memory, lineage, f"{name}'s cat is Tom. Tom eats fish.", [fact("Tom", "eats", "fish")]
    )
    with_settings(memory, review=True)
    await _read(memory, lineage, f"{name} likes jazz.", [fact(name, "likes", "jazz")])
    await recall.recall(memory, CandidateQuery(f"where does {name} live"), 5, lineage)
    await build_context(memory, ContextQuery(f"What of {name}?", "general"), lineage)
    await memory.uses.settle_all()
    return {"ida": ida, "flat": flat.id, "tea": tea.id, "brief": brief.id}


async def _read(memory, lineage, text, facts):
    await remember.store_episode(memory, NewEpisode(text, "general"), lineage)
    report = await run_consolidation(memory, ScriptedModel(answer(new_facts=facts)), lineage)
    assert report.errors == []


async def everything(owner, tenant):
    """Every row of a tenant in every table that has any, as text."""
    rows = {}
    for table in await tables(owner):
        found = await owner.fetch(
            f"select to_jsonb(t)::text as row from {table} t where tenant_id = $1", tenant
        )
        rows[table] = sorted(
            json.dumps(json.loads(one["row"]), ensure_ascii=False) for one in found
        )
    return rows
