"""A few rounds of `make chaos`, and that it would notice what it looks for."""

import asyncio
from random import Random

import pytest

from chaos import journal
from chaos.journal import Journal, Lost, Refused
from chaos.rounds import Rounds, new_home
from db.databases import connected


@pytest.mark.slow
@pytest.mark.contract("N4.4", "N7.2", "L19", "L41")
def test_what_was_acknowledged_survives_every_kill():
    rounds = Rounds(7, ("statement", "moment", "server", "undo", "erase"))
    figures = rounds.run(3, tell=lambda words: None)
    assert figures.findings == []
    assert sum(figures.kills.values()) >= 3
    assert sum(figures.acknowledged.values()) > 0


@pytest.mark.slow
def test_a_lost_write_and_a_cut_audit_log_are_noticed():
    with new_home(Random(1)) as home:
        while not home.journal.certain("fact", "active"):
            home.write_until_killed(0, seconds=1.0)
            assert home.faults() == []
        [fact, *_] = home.journal.certain("fact", "active")
        asyncio.run(_harm(home.dsn(), f"delete from facts where id = '{fact}'"))
        asyncio.run(_harm(home.dsn(), "delete from memory_event_chain"))
        faults = home.faults()
    assert f"fact {fact} is absent; it may be active" in faults
    assert any("nothing removed it, and it is not there" in fault for fault in faults)
    assert any(fault.startswith("the audit log lost ") for fault in faults)


async def _harm(dsn, statement):
    async with connected(dsn) as connection:
        await connection.execute("set session_replication_role = replica")
        await connection.execute(statement)


def test_without_an_answer_both_states_are_allowed_and_a_refusal_changes_nothing(monkeypatch):
    found = {("fact", "1"): "superseded", ("fact", "2"): "active", ("fact", "3"): "active"}

    async def rows(dsn):
        return found

    monkeypatch.setattr(journal, "_found", rows)
    notes = Journal()
    for id in "123":
        notes.knows("fact", id, "active")
    with pytest.raises(Lost), notes.moving("correct", {("fact", "1"): "superseded"}):
        raise Lost
    with notes.moving("correct", {("fact", "2"): "superseded"}):
        raise Refused
    with notes.moving("forget", {("fact", "3"): "retracted"}):
        pass
    assert notes.certain("fact", "active") == ["2"]
    assert notes.faults("") == ["fact 3 is active; it may be retracted"]
    assert notes.certain("fact", "superseded") == ["1"]
    assert notes.acknowledged == {"forget": 1}
