"""The words of a text, whatever it is written in."""

import pytest

from butlers.kernel.text import folded, prepared


@pytest.mark.parametrize(
    "text",
    [
        "Which oolong tea, at 5 o'clock?",
        "https://example.org/a_b?c=d#e mail@example.org v1.2.3 snake_case dotted.name",
        "",
    ],
)
def test_ascii_stays_as_it_is(text):
    assert prepared(text) == text


def test_links_mails_and_identifiers_survive_among_other_letters():
    said = prepared("Ä: https://example.org/a_b?c=d mail@example.org snake_case dotted.name 1.5")
    assert said == "a: https://example.org/a_b?c=d mail@example.org snake_case dotted.name 1.5"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CAFÉ", "cafe"), ("Straße", "STRASSE"), ("Ångström", "angstrom"), ("łódź", "lodz"),
        ("ＡＢＣ１２", "abc12"), ("ｶﾞ", "ガ"), ("Ёлка", "елка"), ("Ὀδυσσεύς", "οδυσσευσ"),
        ("cafe\u0301", "café"), ("İstanbul", "istanbul"),
    ],
)  # fmt: skip
def test_forms_of_the_same_letters_are_one(one, other):
    assert folded(one) == folded(other)


def test_a_mark_that_makes_another_letter_is_kept():
    assert folded("йод") != folded("иод")
    assert folded("が") != folded("か")
    assert folded("किताब") == "किताब"


@pytest.mark.parametrize(
    ("run", "pairs"),
    [
        ("东京塔", ["东京", "京塔"]),
        ("天気です", ["天気", "気で", "です"]),
        ("茶", ["茶"]),
        ("データー", ["デー", "ータ", "ター"]),
    ],
)
def test_scripts_without_spaces_are_cut_into_pairs(run, pairs):
    assert prepared(run).split() == pairs


def test_korean_keeps_its_words_beside_the_pairs():
    assert prepared("가격은 차").split() == ["가격은", "가격", "격은", "차"]


def test_a_run_ends_where_another_script_begins():
    assert prepared("iPhone15を買った").split() == ["iphone15", "を買", "買っ", "った"]


@pytest.mark.parametrize(
    "forms",
    [("книга", "книги", "книгу"), ("работал", "работала", "работали"), ("Москва", "МОСКВЫ")],
)
def test_forms_of_a_russian_word_are_one(forms):
    assert len({prepared(form) for form in forms}) == 1


def test_what_was_prepared_is_asked_for_in_the_same_words():
    asked = prepared("東京タワーの高さ？").split()
    assert set(asked) & set(prepared("東京タワーは333メートル").split()) >= {"東京", "京タ", "タワ"}
