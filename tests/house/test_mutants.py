"""The mutations of `make mutants`: each still fits the source, and names tests that are there."""

from collections import Counter

import pytest

from mutants.run import SOURCE, TESTS, Fate, Mutant, NotThere, judged, load

MUTANTS = load()
SQL = [one for one in MUTANTS if one.path.suffix == ".sql"]


def test_there_is_something_to_change():
    assert len(MUTANTS) >= 60
    assert len(SQL) >= 25
    assert [m for m, times in Counter(one.meaning for one in MUTANTS).items() if times > 1] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=[one.meaning for one in MUTANTS])
def test_it_still_fits_the_source_and_names_its_tests(mutant):
    text = (SOURCE / mutant.path).read_text()
    changed = mutant.applied(text)
    assert changed != text
    if mutant.path.suffix == ".py":
        compile(changed, mutant.file, "exec")  # a change of meaning, not a fault of syntax
    assert mutant.tests
    assert [test for test in mutant.tests if not (TESTS / test).is_file()] == []


TEXT = """\
-- one --
select a where b and b
-- two --
select a where b
"""


def mutant(**fields):
    return Mutant("m", "f.sql", **{"old": "b", "new": "c", "tests": ("t",), **fields})


def test_what_statements_share_is_a_section_of_its_own():
    shared = "-- {named} --\nb\n"
    named = mutant(section="{named}").applied(shared + TEXT)
    assert named == shared.replace("b", "c") + TEXT
    assert mutant(section="two").applied(TEXT + shared) == f"{TEXT[:-2]}c\n{shared}"


def test_what_stands_once_in_its_section_is_changed_there_alone():
    assert mutant(section="two").applied(TEXT) == TEXT[:-2] + "c\n"
    assert mutant(section="one", after="b and").applied(TEXT) == TEXT.replace("and b", "and c")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({}, "'b' stands 3 times"),
        ({"section": "one"}, "'b' stands 2 times"),
        ({"section": "three"}, "'-- three --' stands 0 times"),
        ({"section": "two", "old": "and"}, "'and' stands 0 times"),
        ({"section": "one", "after": "b"}, "'b' stands 2 times"),
        ({"section": "two", "after": "where b"}, "'b' does not follow 'where b'"),
    ],
)
def test_a_mutation_that_does_not_fit_is_never_made(fields, complaint):
    with pytest.raises(NotThere, match=complaint):
        mutant(**fields).applied(TEXT)


KILLED = (mutant(), Fate.KILLED)
EXCUSED = (mutant(reason="a second wall"), Fate.SURVIVED)


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ([KILLED] * 40, 0),
        ([KILLED] * 33 + [EXCUSED], 0),
        ([KILLED] * 31 + [EXCUSED], 1),
        ([KILLED] * 99 + [(mutant(), Fate.SURVIVED)], 1),
        ([KILLED] * 99 + [(mutant(), Fate.INVALID)], 1),
    ],
)
def test_few_may_survive_and_each_with_a_reason(ends, status, capsys):
    assert judged(ends) == status
    assert capsys.readouterr().out.startswith(f"{len(ends)} mutations: ")
