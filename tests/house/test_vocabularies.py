"""Each vocabulary has one truth: the words of the code are the words of the database."""

import inspect
import re
from enum import StrEnum

import pytest

from butlers.interfaces.web.formatting import WORDS
from butlers.memory import model
from butlers.memory.model import (
    ConflictKind,
    ConsolidationStatus,
    EntityType,
    EventSubject,
    Holds,
    Maturity,
    MemoryType,
    Origin,
    Permanence,
    PieceKind,
    ProposalKind,
    ProposalStatus,
    Relation,
    RemovalReason,
    RuleOutcome,
    Settlement,
    Validity,
    VersionState,
)

CHECKED = {
    ("episodes", "consolidation_status"): ConsolidationStatus,
    ("episodes", "piece"): PieceKind,
    ("facts", "validity"): Validity,
    ("facts", "permanence"): Permanence,
    ("rules", "permanence"): Permanence,
    ("rules", "maturity"): Maturity,
    ("entities", "entity_type"): EntityType,
    ("memory_links", "relation"): Relation,
    ("memory_links", "source_type"): MemoryType,
    ("memory_links", "target_type"): MemoryType,
    ("memory_events", "memory_type"): EventSubject,
    ("rule_applications", "outcome"): RuleOutcome,
    ("embedding_versions", "state"): VersionState,
    ("index_memories", "memory_type"): MemoryType,
    ("binned_episodes", "reason"): RemovalReason,
    ("episodes", "origin"): Origin,
    ("facts", "origin"): Origin,
    ("rules", "origin"): Origin,
    ("rule_applications", "origin"): Origin,
    ("memory_proposals", "kind"): ProposalKind,
    ("memory_proposals", "status"): ProposalStatus,
    ("memory_conflicts", "kind"): ConflictKind,
    ("memory_conflicts", "settled_as"): Settlement,
    ("memory_predicates", "holds"): Holds,
}
# Words of the code that are not stored under a CHECK, and why.
UNCHECKED = {
    "Direction": "an argument, never stored",
    "SearchMode": "an argument, never stored",
    "EventType": "the audit stream outlives the words of any one version",
}


async def vocabularies(connection):
    """Columns held to a list of words, with the list."""
    rows = await connection.fetch(
        "select conrelid::regclass::text as table, attname as column, "
        "pg_get_constraintdef(pg_constraint.oid) as definition "
        "from pg_constraint join pg_attribute on attrelid = conrelid and attnum = conkey[1] "
        "where contype = 'c' and array_length(conkey, 1) = 1 "
        "and connamespace = 'public'::regnamespace"
    )
    return {
        (row["table"], row["column"]): set(re.findall(r"'([^']*)'::", row["definition"]))
        for row in rows
        if "ARRAY[" in row["definition"]
    }


@pytest.mark.contract("N5.1", "N5.2", "N5.3", "N5.4")
async def test_the_words_of_the_code_are_those_of_the_database(owner):
    assert await vocabularies(owner) == {
        place: {str(word) for word in words} for place, words in CHECKED.items()
    }


def test_every_vocabulary_is_checked_or_said_not_to_be():
    found = {
        name
        for name, value in inspect.getmembers(model, inspect.isclass)
        if issubclass(value, StrEnum) and value is not StrEnum
    }
    checked = {words.__name__ for words in CHECKED.values()}
    assert found - checked <= UNCHECKED.keys()
    assert checked <= found


def test_pages_name_only_events_that_there_are():
    assert set(WORDS["events"]) <= set(model.EventType)
