"""When a statement says that it holds, and that most dates say nothing of the kind."""

from datetime import UTC, datetime

import pytest

from butlers.memory.model import NewFact
from butlers.memory.policy.spoken_window import TIME_CUE, dated, read_window
from butlers.memory.policy.validity import OPEN

# A Thursday.
SAID = datetime(2026, 6, 11, 15, 30, tzinfo=UTC)

TOLD = {
    "works at Acme since March 2024": ("2024-03-01", None),
    "lives in Berlin since 2019": ("2019-01-01", None),
    "Since 12 May 2023 she is on the board": ("2023-05-12", None),
    "vegetarian since 2021-04-03": ("2021-04-03", None),
    "has led the team since 2025-09": ("2025-09-01", None),
    "Since 2019, she works at Acme.": ("2019-01-01", None),
    "is away since yesterday": ("2026-06-10", None),
    "on call since Monday": ("2026-06-08", None),
    "ill since last Friday": ("2026-06-05", None),
    "works remotely since last week": ("2026-06-01", None),
    "has had a dog since last year": ("2025-01-01", None),
    "has been retired since April": ("2026-04-01", None),
    "has been retired since October": ("2025-10-01", None),
    "lived in Oslo from 2019 to 2022": ("2019-01-01", "2023-01-01"),
    "lived in Oslo between 2019 and 2022": ("2019-01-01", "2023-01-01"),
    "since 2019 lives in Berlin": ("2019-01-01", None),
    "studied in Paris (2015–2018)": ("2015-01-01", "2019-01-01"),
    "head of sales (2019-present)": ("2019-01-01", None),
    "was contracted from 1 May 2024 until 30 June 2024": ("2024-05-01", "2024-07-01"),
    "was team lead from March 2020 to May 2021": ("2020-03-01", "2021-06-01"),
    "rents the flat until June 2027": (None, "2027-07-01"),
    "worked at Initech until 2018": (None, "2019-01-01"),
    "is on leave until Friday": (None, "2026-06-13"),
    "is on leave until next week": (None, "2026-06-22"),
    "is in Rome until tomorrow": (None, "2026-06-13"),
    "covers for Ann until the end of the month": (None, "2026-07-01"),
    "holds the badge till December": (None, "2027-01-01"),
    "as of 2025-01-01 the plan is Gold": ("2025-01-01", None),
    "As of January 2025 the VAT is 21 %": ("2025-01-01", None),
    "works part time starting 1 July": ("2026-07-01", None),
    "starting 1 May, works from home": ("2027-05-01", None),
    "is CTO from 2027-01-01 onwards": ("2027-01-01", None),
    "works in Hamburg from next Monday": ("2026-06-15", None),
    "is on parental leave from tomorrow": ("2026-06-12", None),
    "uses the new desk effective 2026-07-01": ("2026-07-01", None),
    "wohnt seit 2019 in Berlin": ("2019-01-01", None),
    "arbeitet seit dem 1. März 2024 bei Acme": ("2024-03-01", None),
    "ist seit gestern krank": ("2026-06-10", None),
    "wohnte von 2019 bis 2022 in Oslo": ("2019-01-01", "2023-01-01"),
    "ist in Elternzeit bis Dezember 2026": (None, "2027-01-01"),
    "arbeitet ab 1. Juli 2026 in Teilzeit": ("2026-07-01", None),
    "arbeitet ab nächster Woche in Bonn": ("2026-06-15", None),
    "habite à Lyon depuis mars 2024": ("2024-03-01", None),
    "habite à Lyon depuis 2019": ("2019-01-01", None),
    "en congé jusqu'au 3 juillet 2026": (None, "2026-07-04"),
    "directrice jusqu'en 2022": (None, "2023-01-01"),
    "vive en Madrid desde 2020": ("2020-01-01", None),
    "trabaja allí desde enero de 2023": ("2023-01-01", None),
    "alquila el piso hasta mayo de 2027": (None, "2027-06-01"),
}
NOT_TOLD = """
born on 12 May 1990
broke his wrist skating, cast until 20 April
had a baby boy, Fiachra; away until September
writes dates as day month year, weeks starting Monday
checks the figures every Saturday starting May 9th
lives in Berlin since 2019 and likes tea
Colonial Period (1910-1945): the five events
has her birthday on 3 July
meets Bob on Friday
the dinner is on 12 June 2026
the deadline is until 30 June 2026
submit the form until 5 May 2026
the report is due until Friday
wait until Monday before deploying
the meeting is postponed until Friday
is not available until 5 May 2027
won't start until 2027
uses Python 3.11 since version 2.4
upgraded to 2024.3 in March
drinks a wine from 2019
has a photo from March 2021
the report from March is on the desk
open from Monday to Friday
works from 9 to 5
travels between May and September
the range is between 2000 and 3000 metres
holds up to 2025 entries
reads until 2000 words are done
sells until 2030 kg are left
between 2010 and 2050 users a day
the first snow since 2010
the highest revenue since 2019
the biggest change since March 2020
has read 1984 twice
likes the year 2019
the contract of 2019
moved to Berlin in March 2024
started at Acme in 2024
graduated in 2015
since Ann left, Bob cooks
since May left, Bob cooks
has changed a lot since then
works since the merger
asks for a call by Friday
pay the invoice before 1 July 2026
Steuererklärung bis 31. Juli 2026 abgeben
die Frist läuft bis Freitag
kommt nicht vor 2027
ab und zu in Berlin
spricht von 2019
le rapport de mars 2024
rendre le dossier jusqu'au 3 juillet 2026
la entrega vence hasta mayo de 2027
nació en 1990
room 2019 until further notice
the 2019 to do list
lived there since 2019 and again since 2022
the flight leaves at 10:00 on 2026-07-01
the model from 2024 on the shelf next to 2025
since 31 February 2024 nothing works
from 2022 to 2019
birthday: 1990-05-12
version 2.0 (2019-05)
""".strip().splitlines()


def day(told):
    return told and datetime.fromisoformat(told).replace(tzinfo=UTC)


@pytest.mark.contract("L38")
@pytest.mark.parametrize(("text", "told"), TOLD.items())
def test_a_statement_that_says_since_or_until_when_is_read(text, told):
    assert TIME_CUE.search(text), "nobody reads a statement without a cue"
    window = read_window(text, SAID)
    assert (window.valid_from, window.valid_to) == tuple(map(day, told))


@pytest.mark.parametrize("text", NOT_TOLD)
def test_a_date_alone_is_no_window(text):
    assert read_window(text, SAID) == OPEN


def test_what_the_teller_gave_stands_and_a_day_is_counted_from_when_it_was_said():
    fact = NewFact("Ann", "desk", "works at home since Monday", said_at=day("2026-02-05"))
    assert dated(fact, SAID).valid_from == day("2026-02-02")
    given = NewFact("Ann", "desk", "works at home since Monday", valid_to=day("2027-01-01"))
    assert dated(given, SAID) == given


def test_a_long_text_has_no_window():
    assert read_window("since 2019 " + "x" * 200, SAID) == OPEN
