"""Who is named in a text, however the name is written, and who is not."""

import pytest

from butlers.kernel.mentions import Mentions


@pytest.mark.parametrize(
    "text",
    ["Ida", "IDA came", "(ida)", "Ida's", "Ida’s cat", "Idas", "idá", "ida_notes", "x/ida-site/y",
     "ida.rossi@example.org", "with\nIda\nand", "Mrs  Rossi", "rossi's"],
)  # fmt: skip
def test_somebody_is_named(text):
    assert Mentions(["Ida", "Mrs Rossi", "Rossi"]).in_text(text)


@pytest.mark.parametrize("text", ["Idaho", "holidays", "Florida", "idan", "Ida2", "", "I d a"])
def test_a_part_of_another_word_is_nobody(text):
    assert not Mentions(["Ida"]).in_text(text)


def test_scripts_without_spaces_and_other_alphabets_are_found():
    assert Mentions(["花子"]).in_text("昨日花子さんに会った")
    assert Mentions(["Zoë"]).in_text("ZOE")
    assert Mentions(["Иван"]).in_text("С Иван говорил")
    assert not Mentions(["Иван"]).in_text("Иванов")


def test_a_value_is_searched_to_its_last_key_and_no_name_finds_nothing():
    assert Mentions(["Ida"]).in_value({"a": [1, {"of Ida": None}]})
    assert not Mentions(["Ida"]).in_value({"a": [1, {"b": None}]})
    assert not Mentions(["", " ", "x"]).in_text("x")
    assert not Mentions([]).in_value(["anything", ""])


def test_signs_of_expressions_are_signs_of_names():
    assert Mentions(["A.C. (Tom)*"]).in_text("saw a.c. (tom)* there")
    assert not Mentions([".*"]).in_text("anything")
