"""Whether a store agrees with itself and with its audit log: what is wrong is found and named."""

import pytest

from butlers.memory.flows import check, feedback, remember
from butlers.memory.flows.check import StoreCheck
from butlers.memory.model import NewFact
from memory.index import differences
from memory.whole_store import everything, fill

# What somebody might do to a store, and what is said of it then.
HARMS = {
    "delete from memory_events where event_type = 'fact_created' and memory_id = "
    "(select id from facts where content = 'tea')": "has no event that created it",
    "delete from facts where content = 'tea'": "fact_created is in the audit log",
    "delete from episodes where content like 'The café%'": "episode_created is in the audit log",
    "delete from binned_episodes": "episode_created is in the audit log",
    "delete from memory_proposals": "proposal_made is in the audit log",
    "delete from memory_conflicts": "conflict_found is in the audit log",
    "delete from memory_links where relation = 'supports'": "link_created is in the audit log",
    "delete from entities where canonical_name = 'Acme'": "entity_created is in the audit log",
    "update facts set validity = 'retracted' where content = 'tea'":
        "is retracted; its events make it active",
    "update facts set valid_to = '2099-01-01' where content = 'tea'":
        "is valid in the window [null",
    "update facts set last_confirmed_at = '2000-01-01' where id in (select memory_id from "
    "memory_events where event_type = 'fact_confirmed')": "was last confirmed at 2000-01-01",
    "update facts set subject = 'Eve' where content = 'tea'": "has another subject or predicate",
    "update facts set supersedes_id = (select id from facts where content = 'tea') "
    "where content = 'Turin'": "is not linked to it",
    "update rules set maturity = 'proven' where content = 'Be brief'":
        "is proven; its events make it candidate",
    "update rules set metadata = metadata || '{\"forgotten\": true}' where content = 'Be brief'":
        "is forgotten; its events make it active",
    "update rules set harmful_count = 0 where content = 'Be brief'":
        "counts 0 helpful and 0 harmful reports",
    "delete from rule_applications": "has 0 reports; its events name 1",
    "update rules set last_confirmed_at = '2000-01-01' where success_count = 1":
        "was last confirmed at 2000-01-01",
    "update rules set quarantined = 'why'": "is quarantined; its events make it released",
    "update episodes set quarantined = 'why'": "is quarantined; its events make it released",
    "update episodes set consolidation_status = 'failed', consolidated = false "
    "where consolidation_status = 'consolidated'": "is failed; its events make it consolidated",
    "update entities set canonical_name = 'Eve' where canonical_name = 'Ida'":
        "has another name than its events",
    "update entities set metadata = jsonb_build_object('merged_into', (select id from entities "
    "where canonical_name = 'Acme')) where canonical_name = 'Ida'": "no event merged it",
    "update memory_proposals set status = 'declined', decided_at = now()":
        "is declined; its events make it waiting",
    "update memory_conflicts set settled_as = 'both', settled_at = now()":
        "is both; its events make it open",
    "insert into memory_links select 'rule', (select id from rules where content = 'Be brief'), "
    "'fact', gen_random_uuid(), 'supports', now(), 'acme'": "there never was its target, a fact",
    "insert into memory_links select 'rule', (select id from rules where content = 'Be brief'), "
    "'fact', (select id from facts where content = 'Turin'), 'supports', now(), 'acme'":
        "no event and no row accounts for it",
    "update memory_events set payload = payload || '{\"to\": \"fading\"}' "
    "where event_type = 'fact_created'": "the audit log: event",
    "update facts set embedding_version_id = gen_random_uuid() where content = 'tea'":
        "a model that the tenant does not know",
    "update facts set embedding = null, embedding_version_id = null where content = 'tea'":
        "has no vector of toy",
    "update embedding_versions set dimensions = 100": "384 dimensions that does not fit",
    "insert into binned_episodes select tenant_id, id, now(), 'expired', to_jsonb(e) "
    "from episodes e limit 1": "is in the bin and among the episodes",
}  # fmt: skip
# The same of the search index, which is derived from memories and can be made anew.
INDEX_HARMS = {
    "delete from index_memories where memory_type = 'fact'": "is not in the search index",
    "update index_memories set shown = not shown": "with other values than it has",
    "update index_memories set place = 7": "with other values than it has",
    "delete from index_words where word like 'e%'": "with other words than it has",
    "update index_words set impact = impact / 2": "with other words than it has",
    "delete from index_vectors": "with other vectors than it has",
    "update index_vectors v set embedding = (select w.embedding from index_vectors w "
    "where w.doc <> v.doc limit 1)": "with other vectors than it has",
    "delete from index_names": "not all its names are in the search index",
    "insert into index_memories (tenant_id, memory_type, memory_id, shown, scope, confidence, "
    "decay_rate, created_at, length) values ('acme', 'fact', gen_random_uuid(), true, 'global', "
    "1, 0, now(), 0)": "a fact that does not exist",
    "insert into index_words select tenant_id, 'nobody', doc, impact, place from index_words "
    "order by doc limit 1": "a word that no memory has",
    "insert into index_words values ('acme', 'nobody', 999999, 1, 1)": "a word that no memory has",
    "insert into index_vectors select tenant_id, version_id, 999999, embedding "
    "from index_vectors limit 1": "a vector that no memory has",
}  # fmt: skip


async def harmed(owner, harm):
    """Change rows behind the back of the product."""
    await owner.execute("set session_replication_role = replica")
    try:
        status = await owner.execute(harm)
    finally:
        await owner.execute("set session_replication_role = default")
    assert int(status.split()[-1]) > 0, "it harmed nothing"


async def found(memory, **scope):
    return (await StoreCheck(memory, **scope).run()).lines


@pytest.fixture
async def store(memory, lineage, owner, clock):
    known = await fill(memory, lineage, owner, clock)
    await feedback.confirm_memory(memory, "fact", known["tea"], lineage)
    assert await found(memory) == []


@pytest.mark.contract("N4.4", "L39")
@pytest.mark.parametrize("harm", HARMS)
async def test_what_disagrees_with_the_audit_log_is_named(memory, store, owner, harm):
    await harmed(owner, harm)
    assert any(HARMS[harm] in line for line in await found(memory)), await found(memory)


@pytest.mark.parametrize("harm", INDEX_HARMS)
async def test_a_wrong_search_index_is_named_and_made_anew(memory, store, owner, lineage, harm):
    before = await everything(owner, lineage.tenant_id)
    await harmed(owner, harm)
    assert any(INDEX_HARMS[harm] in line for line in await found(memory)), await found(memory)
    report = await StoreCheck(memory, repair=True).run()
    assert (report.lines, report.faulty) == ([], 0)
    assert report.repaired > 0
    assert await differences(owner) == []
    after = await everything(owner, lineage.tenant_id)
    derived = {"index_memories", "index_words", "index_vectors", "index_names"}
    assert {k: v for k, v in after.items() if k not in derived} == {
        k: v for k, v in before.items() if k not in derived
    }


async def test_two_facts_of_one_key_at_one_time_are_named(memory, store, owner):
    """The constraint that keeps them apart is taken away for as long as this test runs."""
    held = await owner.fetchval(
        "select pg_get_constraintdef(oid) from pg_constraint where conname = 'facts_hold_apart'"
    )
    await owner.execute("alter table facts drop constraint facts_hold_apart")
    try:
        await harmed(
            owner,
            "update facts set valid_from = null, valid_to = null, validity = 'active' "
            "where content = 'Rome'",
        )
        assert any("have one key" in line for line in await found(memory))
    finally:
        await owner.execute("truncate facts cascade")
        await owner.execute(f"alter table facts add constraint facts_hold_apart {held}")


async def test_of_a_large_store_some_is_checked_and_of_a_small_one_all(memory, store, owner):
    whole, some = await StoreCheck(memory).run(), await StoreCheck(memory, limit=3).run()
    assert (some.lines, some.faulty) == ([], 0)
    assert 0 < some.checked < whole.checked
    await harmed(owner, "update rules set maturity = 'proven' where content = 'Be brief'")
    assert any("is proven" in line for line in await found(memory, limit=100))


async def test_many_findings_are_counted_and_some_named(memory, store, owner, monkeypatch):
    monkeypatch.setattr(check, "MOST_FINDINGS", 1)
    monkeypatch.setattr(check, "BATCH", 2)
    await harmed(owner, "delete from memory_events where event_type = 'fact_created'")
    report = await StoreCheck(memory).run()
    facts = await owner.fetchval("select count(*) from facts")
    named = [line for line in report.lines if "has no event that created it" in line]
    assert 1 < len(named) < facts
    assert report.faulty > len(report.findings)


async def test_a_deep_check_embeds_again(memory, store, owner):
    report = await StoreCheck(memory, deep=True).run()
    assert report.lines == []
    await owner.execute("update facts set content = 'coffee' where content = 'tea'")
    assert any("has another vector than toy 1 makes" in o for o in await found(memory, deep=True))


async def test_every_tenant_is_checked_and_no_other_is_named(memory, store, owner, stranger):
    await remember.store_fact(memory, NewFact("Ann", "likes", "tea"), stranger)
    await harmed(owner, "delete from memory_events where tenant_id = 'rival'")
    lines = await found(memory)
    assert lines and all(line.startswith("rival: ") for line in lines)
