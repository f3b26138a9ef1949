"""Short prompts that point to the agent's last answer."""

import pytest

from butlers.sessions.references import text_referred_to

OFFER = "Two ways:\n\n1. **Redis**: a shared cache\n2. A table in PostgreSQL\n\nWhich one?"


@pytest.mark.parametrize(
    ("prompt", "meant"),
    [
        ("option 2 please", "A table in PostgreSQL"),
        ("the first one", "**Redis**: a shared cache"),
        ("die zweite", "A table in PostgreSQL"),
        ("option 4", ""),
        ("thanks!", ""),
        ("which port has the cache?", ""),
    ],
)
def test_an_option_is_found_by_its_number(prompt, meant):
    assert text_referred_to(prompt, OFFER) == meant


def test_do_it_means_the_end_of_the_answer():
    answer = "I looked around. I would move the cache into a table. Shall I?"
    assert text_referred_to("yes do it", answer).endswith("move the cache into a table. Shall I?")
    assert text_referred_to("yes do it", "") == ""
    assert text_referred_to("do it " + "with every file of the project " * 5, answer) == ""
