"""Reading a caller's text takes time in proportion to its length, whatever it says."""

import pytest

from house.hostile_texts import (
    FEW_UNITS,
    UNITS,
    is_linear,
    of_length,
    own_texts,
    seconds,
    tails,
)
from house.more_readers import MORE_READERS
from house.text_readers import Expression, expressions, readers

pytestmark = pytest.mark.contract("L22")
READERS = readers() | MORE_READERS
MEGABYTE, SAMPLE = 1_000_000, 62_500
AT_MOST = 16 * 2.5
"""Sixteen times the text may take so many times as long: caches are colder, lists are larger."""
EXPECTED = {
    *("kernel.secrets.masked", "kernel.text.clean", "kernel.text.folded"),
    *("kernel.private_tags.without_private", "kernel.token_count.count_tokens"),
    *("kernel.json_values.shallow_json", "memory.policy.suspicion.doubt"),
    *("memory.policy.statement_keys.statement_key", "memory.policy.spoken_window.read_window"),
    *("memory.policy.question.read", "memory.policy.naming.may_mean"),
    *("memory.policy.consolidation_parser.parse_consolidation", "memory.policy.context.escaped"),
    *("memory.policy.quantities.quantities", "memory.policy.decisions.why_past"),
    *("memory.policy.consolidation_sentences.statements", "memory.policy.fact_statements.read"),
    *("sessions.cues.stated", "sessions.privacy_words.find_request", "sessions.gist.weigh"),
    *("sessions.command_names.named_commands", "sessions.error_signature.error_signature"),
    *("sessions.spoken.own_sentences", "portability.documents.pieces"),
}
WHOLE_BODIES = (
    *("butlers.kernel.secrets.masked", "butlers.kernel.text.clean", "an episode"),
    *("butlers.kernel.text.preprocess_text", "butlers.kernel.text.prepared"),
    *("butlers.kernel.private_tags.without_private", "butlers.kernel.json_values.shallow_json"),
    *("butlers.memory.policy.suspicion.doubt", "butlers.kernel.token_count.count_tokens"),
    *("private arguments", "metadata", "a transcript", "a session", "an essence", "pieces"),
    *("butlers.memory.policy.question.read", "butlers.sessions.privacy_words.find_request"),
    *("butlers.portability.documents.pieces", "a line of JSON", "a tool call", "private turns"),
)
"""What may get a megabyte at once."""
MIXTURES = ("a1 ", " ", "x\n\n", '"(', "aGVsbG8gd29ybGQ=", "字é ", "password: ")


def name_of(expression: Expression) -> str:
    return expression.name.removeprefix("butlers.")


def test_every_expression_takes_linear_time() -> None:
    slow = [
        f"{name_of(expression)}.{use} on {unit[:40]!r}"
        for expression in expressions()
        for use, read in expression.readers()
        for unit in units_for(expression.pattern.pattern)
        if not is_linear(read, unit)
    ]
    assert not slow


def units_for(written: str) -> list[str]:
    return [*UNITS, *own_texts(written), *tails(written)]


def test_every_reader_takes_linear_time() -> None:
    slow = [
        f"{name} on {unit!r}"
        for name, read in READERS.items()
        for unit in FEW_UNITS
        if not is_linear(read, unit)
    ]
    assert not slow


@pytest.mark.parametrize("name", WHOLE_BODIES)
def test_a_megabyte_is_read_in_proportion(name: str) -> None:
    read, took = READERS[name], {}
    for unit in MIXTURES:
        read(of_length(unit, 1_000))  # tables are loaded
        took[unit] = seconds(read, of_length(unit, SAMPLE))
    worst = max(took, key=lambda unit: took[unit])
    whole = seconds(read, of_length(worst, MEGABYTE))
    assert whole <= AT_MOST * max(took[worst], seconds(read, of_length(worst, SAMPLE)), 0.001)


def test_the_readers_that_matter_are_found() -> None:
    assert {f"butlers.{name}" for name in EXPECTED} <= READERS.keys()
    assert len(READERS) > 180
    assert len(expressions()) > 500
