"""The best by words: what is left unread could not have been among them."""

import random
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TENANT = "default"
WORDS = ("anchor", "boat", "cello", "dune", "ember", "fjord")
KNOWN = (
    "row($2::bigint[], $3::float[], $4::smallint[], $5::text[], $6::real[], $7::float[])"
    "::query_terms"
)
# Every sum of these is exact, so that equal ones are equal however they were made.
IMPACTS, WEIGHTS = (0.5, 0.75, 1.5, 2.0), (0.5, 1.0, 2.0, 4.0)
STAND_IN = 0.5


def asked(weights, counts=None, meant=None):
    """A question's words as the index knows them; the words in `meant` stand in for one more."""
    numbers = list(range(1, len(weights) + 1))
    readings, factors, told = list(WORDS[: len(weights)]), [1.0] * len(weights), list(weights)
    for word in meant or ():
        numbers.append(len(weights) + 1)
        readings.append(word)
        factors.append(STAND_IN)
        told.append(4.0 * STAND_IN)
    return counts or [1] * max(numbers), told, numbers, readings, factors, told


def added_up(rows, known, most):
    """The best and what each has, every memory read."""
    parts = defaultdict(lambda: defaultdict(float))
    for word, doc, impact in rows:
        for number, reading, told in zip(known[2], known[3], known[5], strict=True):
            if reading == word:
                here = parts[doc]
                here[number] = max(here[number], float(np.float32(impact)) * told)
    scores = {doc: sum(here.values()) for doc, here in parts.items()}
    best = sorted(scores, key=lambda doc: (-np.float32(scores[doc]), -doc))[:most]
    return best, [scores[doc] for doc in best]


async def enter(owner, rows):
    await owner.execute("delete from index_words")
    await owner.copy_records_to_table(
        "index_words",
        records=[(TENANT, word, doc, impact, 1) for word, doc, impact in rows],
        columns=("tenant_id", "word", "doc", "impact", "place"),
    )


def postings():
    return st.dictionaries(
        st.tuples(st.sampled_from(WORDS), st.integers(1, 40)), st.sampled_from(IMPACTS), min_size=1
    ).map(lambda found: [(word, doc, impact) for (word, doc), impact in found.items()])


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    rows=postings(),
    weights=st.lists(st.sampled_from(WEIGHTS), min_size=1, max_size=4),
    meant=st.sampled_from([(), ("ember",), ("ember", "fjord")]),
    enough=st.sampled_from([0.25, 1.0, 2.0, 3.5, 6.0, 9.0]),
    most=st.integers(1, 12),
)
@pytest.mark.contract("L14")
async def test_what_is_left_out_could_not_reach_the_score(
    owner, rows, weights, meant, enough, most
):
    await enter(owner, rows)
    known = asked(weights, meant=meant)
    found = await owner.fetchval(
        f"select matching_above($1, {KNOWN}, $8, $9)", TENANT, *known, most, enough
    )
    best, scores = added_up(rows, known, most)
    reached = sum(1 for score in scores if score >= enough)
    assert found == (best if reached == most else None)


@pytest.mark.contract("L14")
async def test_among_very_many_the_best_by_words_are_those_of_adding_all_up(owner):
    chance = random.Random(7)
    shares = dict(zip(WORDS, (0.01, 0.02, 0.05, 0.15, 0.4, 0.9), strict=True))
    rows = [
        (word, doc, round(chance.uniform(0.6, 2.1), 3))
        for doc in range(1, 30_001)
        for word, share in shares.items()
        if chance.random() < share
    ]
    await enter(owner, rows)
    held = {word: sum(1 for row in rows if row[0] == word) for word in WORDS}
    for words in (WORDS, WORDS[:4], ("dune", "ember", "fjord"), ("fjord",), ("anchor", "absent")):
        known = await owner.fetchval("select query_terms($1, $2, 30000)::text", TENANT, list(words))
        counts = await owner.fetchval("select ($1::text::query_terms).counts", known)
        exact = [held.get(word, 0) for word in words]
        assert counts == pytest.approx(exact, rel=0.15)
        assert [n for n in counts if n < 14_000] == [n for n in exact if n < 14_000]
        question = "select ($1::text::query_terms).{}"
        arrays = [
            await owner.fetchval(question.format(name), known)
            for name in ("counts", "weights", "numbers", "readings", "factors", "term_weights")
        ]
        found = await owner.fetchval(
            "select matching_memories($1, $2::text::query_terms, 60)", TENANT, known
        )
        assert found == added_up(rows, arrays, 60)[0]
