"""Which facts contradict each other, which say the same, and which merely stand together."""

import importlib
from pathlib import Path

import pytest

from butlers.memory.model import ConflictKind, Holds
from butlers.memory.policy.conflict_rules import ComparedFact, Nearness, compare

ROOT = Path(__file__).parents[2]
FAR = Nearness(predicates=0.2, statements=0.6)
NEAR = Nearness(predicates=0.8, statements=0.8)


@pytest.fixture
def clashes(monkeypatch: pytest.MonkeyPatch):
    """The bench that measures the pairs of `bench/stores/clashes`."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("bench.clashes")


def found(one, other, near=FAR, told=None):
    """What two facts of Ann, each as `predicate = content`, are taken for."""
    older, newer = (ComparedFact("Ann", *side.split(" = ")) for side in (one, other))
    clash = compare(older, newer, near, told)
    return clash and clash.kind


@pytest.mark.parametrize("half", ["dev", "held out"])
def test_conflicts_are_told_from_what_merely_stands_together(clashes, half):
    figures = clashes.measure(half)
    assert sum(figures.of(kind) for kind in clashes.CLASSES) >= 90
    assert figures.precision >= 0.9
    assert figures.recall >= 0.8
    assert figures.taken["conflict", "same"] == 0


@pytest.mark.parametrize("name", ["fresh", "later", "unseen", "last"])
def test_no_contradiction_passes_for_agreement(clashes, name):
    assert clashes.measure(name).taken["conflict", "same"] == 0


def test_two_cities_exclude_each_other_and_the_same_city_does_not():
    assert found("city = Berlin", "lives_in = Madrid") is ConflictKind.CONFLICT
    assert found("city = Berlin", "lives_in = Berlin") is ConflictKind.SAME
    assert found("city = Berlin", "born_in = Oslo") is None
    assert found("city = Berlin", "previous_city = Oslo", NEAR) is None


def test_what_one_says_and_the_other_denies_is_a_conflict_in_four_languages():
    for one, other in (
        ("coffee = drinks coffee", "habits = doesn't drink coffee"),
        ("Kaffee = trinkt Kaffee", "Getränke = trinkt nie Kaffee"),
        ("café = boit du café", "boissons = ne boit pas de café"),
        ("café = toma café", "bebidas = no toma café"),
    ):
        assert found(one, other) is ConflictKind.CONFLICT, other
        assert found(other, one) is ConflictKind.CONFLICT, other


def test_numbers_are_compared_by_what_they_are_of():
    assert found("height = 1.82 m", "tall = 182 cm") is ConflictKind.SAME
    assert found("height = 1.82 m", "tall = 175 cm") is ConflictKind.CONFLICT
    assert found("birthday = 3 May 1990", "dob = 03.05.1990") is ConflictKind.SAME
    assert found("birthday = 3 May 1990", "dob = 1990-03-05") is ConflictKind.CONFLICT
    assert found("age = 4 years", "weight = 28 kg", NEAR) is None


def test_a_predicate_holds_as_many_values_as_is_told_of_it():
    one, other = "mascot = a fox", "team_animal = an owl"
    assert found(one, other, NEAR) is ConflictKind.CONFLICT
    many = {"mascot": Holds.MANY}
    assert found(one, other, NEAR, many) is None
    assert found("likes = sushi", "enjoys = ramen", NEAR) is None
    single = {"likes": Holds.ONE, "enjoys": Holds.ONE}
    assert found("likes = sushi", "enjoys = ramen", NEAR, single) is ConflictKind.CONFLICT


def test_numbers_do_not_contradict_under_a_predicate_that_holds_many():
    one, other = "meeting = at 9:00 in room 4", "meeting = at 14:30 in room 4"
    assert found(one, other, NEAR, {"meeting": Holds.ONE}) is ConflictKind.CONFLICT
    assert found(one, other, NEAR, {"meeting": Holds.MANY}) is None
