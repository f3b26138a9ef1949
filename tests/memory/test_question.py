"""What a question says beside its words."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butlers.memory.policy.question import by_every_name, read

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)  # a Sunday
NAMES = frozenset({"caroline", "melanie", "joão", "mara"})


def asked(text):
    return read(text, NAMES, NOW)


@pytest.mark.parametrize(
    ("text", "people", "bare"),
    [
        ("What did Caroline research?", {"caroline"}, "What did research?"),
        ("what did caroline research?", {"caroline"}, "what did research?"),
        ("What are Melanie's plans?", {"melanie"}, "What are plans?"),
        ("Did Carolin call?", {"caroline"}, "Did call?"),
        ("Did Meelanie meet Mara?", {"melanie", "mara"}, "Did meet ?"),
        ("O que disse João?", {"joão"}, "O que disse ?"),
        ("Melanie?", {"melanie"}, "Melanie?"),
        ("Who repaired the roof?", set(), "Who repaired the roof?"),
    ],
)
def test_people_are_known_by_name_and_left_out_of_the_bare_question(text, people, bare):
    found = asked(text)
    assert found.people == people
    assert found.bare == bare


@pytest.mark.parametrize(
    "text",
    ["the carolina coast", "carolin without a capital", "Maria", "Mary", "Clara and Karoline"],
)
def test_a_name_is_not_found_in_what_is_no_name(text):
    assert not asked(text).people


@pytest.mark.parametrize(
    ("text", "meant", "not_meant"),
    [
        ("What happened on 7 May 2023?", date(2023, 5, 7), date(2023, 5, 8)),
        ("What happened on 2023-05-07?", date(2023, 5, 7), date(2023, 6, 7)),
        ("The party in July", date(2019, 7, 30), date(2019, 8, 1)),
        ("May 7th was hot", date(2024, 5, 7), date(2024, 5, 6)),
        ("all of 2022", date(2022, 12, 31), date(2023, 1, 1)),
        ("what did I do yesterday", date(2026, 11, 14), date(2026, 11, 15)),
        ("what did we decide last week?", date(2026, 11, 2), date(2026, 11, 9)),
        ("this week's plan", date(2026, 11, 9), date(2026, 11, 8)),
        ("last month", date(2026, 10, 31), date(2026, 11, 1)),
        ("last year", date(2025, 2, 3), date(2026, 2, 3)),
        ("what was said last Friday", date(2026, 11, 13), date(2026, 11, 6)),
        ("what was said last Sunday", date(2026, 11, 8), date(2026, 11, 15)),
        ("two weeks ago", date(2026, 11, 1), date(2026, 11, 10)),
        ("in the past month", date(2026, 10, 20), date(2026, 10, 1)),
    ],
)
def test_a_time_is_resolved_against_the_moment_of_asking(text, meant, not_meant):
    when = asked(text).when
    assert when.fits(meant) == 1.0
    assert when.fits(not_meant) <= 0


@pytest.mark.parametrize(
    "text", ["May I march on?", "may we go", "What is the plan?", "x" * 401 + " 2023"]
)
def test_what_names_no_time_means_none(text):
    assert not asked(text).when


def test_half_a_date_met_is_better_than_none():
    when = asked("on 7 May 2023").when
    assert (
        0 > when.fits(date(2023, 5, 8)) > when.fits(date(2023, 8, 8)) > when.fits(date(1999, 1, 1))
    )


@pytest.mark.parametrize("text", ["the latest plan", "what you suggested", "where are we now"])
def test_what_asks_for_the_latest_is_known(text):
    assert asked(text).wants_latest
    assert not asked("the plan").wants_latest


@given(text=st.text(max_size=300), names=st.frozensets(st.text("abcdeé", min_size=3), max_size=5))
def test_any_text_can_be_read(text, names):
    found = read(text, names, NOW)
    assert found.people <= names
    assert found.bare or not text.strip()


def test_whoever_is_asked_about_by_another_name_is_asked_about_by_the_present_one_too():
    called = {"mara lindholm": "Mara Berg", "bob": "Robert", "the eu": "European Union"}
    for asked, becomes in (
        ("Where does Mara Lindholm live?", "Where does Mara Lindholm Mara Berg live?"),
        ("Is mara lindholm in?", "Is mara lindholm Mara Berg in?"),
        ("Bob's car", "Bob Robert's car"),
        ("What does the EU say?", "What does the EU European Union say?"),
        ("Where does Mara Berg live, once Mara Lindholm?", None),
        ("Where does Ingrid Lindholm live?", None),
        ("", None),
    ):
        assert by_every_name(asked, called) == (becomes or asked)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("What did Caroline research?", 0.0),
        ("Did it cost 3.50, or more?", 0.0),
        ("Who is that? And who is he?", 0.0),
        ("composing a commit message", 1.0),
        ("I am back. What is next?", 10 / 23),
        ("猫が好きです。名前は何ですか？", 7 / 15),
        ("", 0.0),
    ],
)
def test_how_much_is_told_is_what_stands_in_sentences_that_ask_nothing(text, told):
    assert asked(text).told == pytest.approx(told)
