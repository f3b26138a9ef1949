"""Text as pages show it: nothing hides, nothing reorders, nothing is lost that a person reads."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from butlers.interfaces.web import formatting

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
UNSEEN = [
    *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200B, 0x200E, 0x200F, 0x061C, 0xFEFF,
    0x00AD, 0x2060, 0xE0041, 0xE007F, 0x9B, 0x00, 0x07, 0x1B, 0x7F, 0x85,
]  # fmt: skip


@pytest.mark.parametrize("code", UNSEEN, ids=hex)
def test_what_cannot_be_seen_is_made_visible(code: int):
    text = formatting.visible(f"a{chr(code)}b")
    assert chr(code) not in text
    assert text[0] == "a" and text[-1] == "b" and len(text) == 3


def test_what_people_write_stays_as_it_is():
    for text in ("line\nnext\ttab", "naïve", "שלום", "مرحبا", "👩‍👩‍👧", "می‌خواهم", "日本語"):
        assert formatting.visible(text) == text


@given(st.text())
def test_the_result_is_stable_and_encodable(text: str):
    once = formatting.visible(text)
    assert formatting.visible(once) == once
    once.encode("utf-8")


def test_markup_made_here_is_left_alone_and_nothing_is_none():
    made = Markup("<b>\u202e</b>")
    assert formatting.finalized(made) is made
    assert formatting.finalized(None) == ""
    assert formatting.finalized(3) == 3


def test_a_long_text_is_cut_on_one_line():
    assert formatting.cut("one\n two", 20) == "one two"
    assert formatting.cut("x" * 50, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("away", "words"),
    [
        (timedelta(0), "just now"),
        (timedelta(seconds=-90), "1 minute ago"),
        (timedelta(hours=-5), "5 hours ago"),
        (timedelta(days=2, hours=1), "in 2 days"),
        (timedelta(days=-800), "2 years ago"),
    ],
)
def test_distances_are_told_in_the_largest_unit(away: timedelta, words: str):
    assert formatting.distance(NOW + away, NOW) == words
    assert formatting.distance((NOW + away).isoformat(), NOW) == words


def test_what_never_was_is_never():
    assert formatting.distance(None, NOW) == "never"
