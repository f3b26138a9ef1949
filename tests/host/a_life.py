"""A year of one person's life as an agent hears of it: what was told when, and 60 questions.

Told is what changed in the world (a move, a job), what was put right, what arrived late, and a lie
that was taken back. Asked is what holds now, what held then, and what was believed then.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Told:
    """Something told on a day: an episode, and the fact that was drawn from it."""

    on: str
    says: str
    predicate: str
    content: str
    subject: str = "Mara Lindholm"
    given: dict[str, Any] = field(default_factory=dict)
    rests_on: str | None = None
    """The predicate of what it depends on."""


@dataclass(frozen=True)
class Corrected:
    """A fact put right: it had been wrong from the first."""

    on: str
    predicate: str
    content: str
    subject: str = "Mara Lindholm"


@dataclass(frozen=True)
class Forgotten:
    """A fact taken back: it was a lie."""

    on: str
    predicate: str
    subject: str = "Mara Lindholm"


@dataclass(frozen=True)
class Renamed:
    """A person who bears another name from now on."""

    on: str
    name: str
    new: str


LIFE = [
    Told("2025-01-05", "Mara Lindholm told me that she lives in Oslo, near the harbour.",
         "city", "Oslo, near the harbour"),
    Told("2025-01-05", "Mara Lindholm works as a nurse at Ullevål hospital.",
         "employer", "Ullevål hospital, as a nurse"),
    Told("2025-01-06", "Mara Lindholm is a vegetarian.", "diet", "vegetarian"),
    Told("2025-01-06", "At Trattoria Nord Mara Lindholm orders the mushroom risotto.",
         "usual_order", "the mushroom risotto at Trattoria Nord", rests_on="diet"),
    Told("2025-01-07", "Mara Lindholm has a cat called Pixel.", "cat_name", "Pixel"),
    Told("2025-01-08", "Mara Lindholm drives a Volvo V60.", "car", "Volvo V60"),
    Told("2025-01-09", "The phone number of Mara Lindholm ends in 4471.",
         "phone_ending", "4471"),
    Told("2025-01-12", "Mara Lindholm has a sister called Ingrid who paints.",
         "sister", "Ingrid, who paints"),
    Told("2025-01-15", "Mara Lindholm has been learning Spanish since 2023.",
         "learning", "Spanish since 2023"),
    Told("2025-01-20", "The rent of Mara Lindholm is 12000 kroner a month.",
         "rent", "12000 kroner a month"),
    Told("2025-02-10", "Mara Lindholm will start at the St Olav clinic on the first of March.",
         "employer", "St Olav clinic", given={"valid_from": "2025-03-01T00:00:00+00:00"}),
    Told("2025-03-02", "Mara Lindholm has moved to Trondheim, by the cathedral.",
         "city", "Trondheim, by the cathedral", given={"valid_from": "2025-03-01T00:00:00+00:00"}),
    Told("2025-03-05", "Mara Lindholm swims on Tuesdays at Pirbadet in Trondheim.",
         "swimming", "Tuesdays at Pirbadet", rests_on="city"),
    Told("2025-03-20", "From 2019 to 2022 Mara Lindholm lived in Bergen as a student.",
         "city", "Bergen, as a student",
         given={"valid_from": "2019-01-01", "valid_to": "2022-01-01"}),
    Corrected("2025-04-15", "cat_name", "Pixie"),
    Told("2025-05-10", "Mara Lindholm married Tomas Berg on the third of May.",
         "spouse", "Tomas Berg", given={"valid_from": "2025-05-03T00:00:00+00:00"}),
    Renamed("2025-05-20", "Mara Lindholm", "Mara Berg"),
    Told("2025-06-01", "A neighbour says that Mara Lindholm is allergic to penicillin.",
         "allergy", "penicillin"),
    Forgotten("2025-06-20", "allergy"),
    Told("2025-07-08", "Mara Berg sold the Volvo and drives a Tesla Model 3.",
         "car", "Tesla Model 3", subject="Mara Berg"),
    Told("2025-08-20", "Mara Berg had been at the St Olav clinic since the middle of February.",
         "employer", "St Olav clinic", subject="Mara Berg",
         given={"valid_from": "2025-02-15T00:00:00+00:00"}),
    Told("2025-09-02", "Mara Berg has moved to Copenhagen, to Vesterbro.",
         "city", "Copenhagen, in Vesterbro", subject="Mara Berg",
         given={"valid_from": "2025-09-01T00:00:00+00:00"}),
    Told("2025-09-15", "Mara Berg is now a nurse at Rigshospitalet.",
         "employer", "Rigshospitalet, as a nurse", subject="Mara Berg"),
    Told("2025-10-05", "The phone number of Mara Berg ends in 9020 now.",
         "phone_ending", "9020", subject="Mara Berg"),
    Told("2025-11-12", "Mara Berg eats fish again: she is a pescatarian.",
         "diet", "pescatarian, eats fish", subject="Mara Berg"),
    Told("2025-12-01", "The rent of Mara Berg is 9500 Danish kroner.",
         "rent", "9500 Danish kroner", subject="Mara Berg"),
]  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A question on a day, what the first fact told must say, and what nothing may say."""

    on: str
    question: str
    says: str | None
    never: tuple[str, ...] = ()
    as_of: str | None = None
    known_at: str | None = None


NOW = [
    Asked("2025-01-25", "In which city does Mara Lindholm live?", "Oslo"),
    Asked("2025-01-25", "Where does Mara Lindholm work?", "Ullevål"),
    Asked("2025-01-25", "What does Mara Lindholm eat?", "vegetarian"),
    Asked("2025-02-12", "Who is the employer of Mara Lindholm?", "Ullevål", ("St Olav",)),
    Asked("2025-03-03", "In which city does Mara Lindholm live?", "Trondheim", ("Oslo",)),
    Asked("2025-03-03", "Who is the employer of Mara Lindholm?", "St Olav", ("Ullevål",)),
    Asked("2025-03-25", "In which city does Mara Lindholm live?", "Trondheim", ("Oslo", "Bergen,")),
    Asked("2025-04-16", "What is the cat of Mara Lindholm called?", "Pixie", ("Pixel",)),
    Asked("2025-06-02", "Which allergy does Mara Berg have?", "penicillin"),
    Asked("2025-06-21", "Which allergy does Mara Berg have?", None, ("penicillin",)),
    Asked("2025-06-21", "Who is married to Mara Berg?", "Tomas"),
    Asked("2025-07-09", "Which car does Mara Berg drive?", "Tesla", ("Volvo V60",)),
    Asked("2025-09-03", "In which city does Mara Berg live?", "Copenhagen",
          ("Trondheim, by", "Oslo")),
    Asked("2025-12-20", "In which city does Mara Berg live?", "Copenhagen",
          ("Trondheim, by", "Oslo", "Bergen,")),
    Asked("2025-12-20", "Where does Mara Lindholm live?", "Copenhagen", ("Oslo", "Bergen,")),
    Asked("2025-12-20", "Who is the employer of Mara Berg?", "Rigshospitalet",
          ("Ullevål", "St Olav")),
    Asked("2025-12-20", "What does Mara Berg eat, what is her diet?", "pescatarian",
          ("is a vegetarian",)),
    Asked("2025-12-20", "What is Mara's cat called?", "Pixie", ("Pixel",)),
    Asked("2025-12-20", "Which car does Mara drive?", "Tesla", ("Volvo V60",)),
    Asked("2025-12-20", "In what does the phone number of Mara Berg end?", "9020", ("4471",)),
    Asked("2025-12-20", "Who is the sister of Mara Berg?", "Ingrid"),
    Asked("2025-12-20", "Which language is Mara learning?", "Spanish"),
    Asked("2025-12-20", "What rent does Mara Berg pay?", "9500", ("12000",)),
    Asked("2025-12-20", "Which allergy does Mara Berg have?", None, ("penicillin",)),
]  # fmt: skip

THEN = [
    Asked("2025-12-20", "In which city did Mara Berg live?", "Oslo", as_of="2025-02-01"),
    Asked("2025-12-20", "In which city did Mara Berg live?", "Oslo", as_of="2023-06-01"),
    Asked("2025-12-20", "In which city did Mara Berg live?", "Bergen", as_of="2020-06-01"),
    Asked("2025-12-20", "In which city did Mara Berg live?", "Trondheim", as_of="2025-03-01"),
    Asked("2025-12-20", "In which city did Mara Berg live?", "Trondheim", as_of="2025-08-31"),
    Asked("2025-12-20", "In which city did Mara Berg live?", "Copenhagen", as_of="2025-09-01"),
    Asked("2025-12-20", "Who was the employer of Mara Berg?", "Ullevål", as_of="2025-02-01"),
    Asked("2025-12-20", "Who was the employer of Mara Berg?", "St Olav", as_of="2025-02-20"),
    Asked("2025-12-20", "Who was the employer of Mara Berg?", "St Olav", as_of="2025-06-01"),
    Asked("2025-12-20", "Who was the employer of Mara Berg?", "Rigshospitalet",
          as_of="2025-10-01"),
    Asked("2025-12-20", "Which car did Mara drive?", "Volvo", as_of="2025-04-01"),
    Asked("2025-12-20", "Which car did Mara drive?", "Tesla", as_of="2025-08-01"),
    Asked("2025-12-20", "What was the cat of Mara called?", "Pixie", ("Pixel",),
          as_of="2025-02-01"),
    Asked("2025-12-20", "Which allergy did Mara Berg have?", None, ("penicillin",),
          as_of="2025-06-10"),
    Asked("2025-12-20", "What was the diet of Mara Berg?", "vegetarian", as_of="2025-06-01"),
    Asked("2025-12-20", "What was the diet of Mara Berg?", "pescatarian", as_of="2025-12-01"),
    Asked("2025-12-20", "In what did the phone number of Mara end?", "4471", as_of="2025-05-01"),
    Asked("2025-12-20", "What rent did Mara pay?", "12000", as_of="2025-05-01"),
    Asked("2025-12-20", "Who was the spouse of Mara Berg?", "Tomas", as_of="2025-05-04"),
    Asked("2025-12-20", "Who was the spouse of Mara Berg?", None, ("Tomas",), as_of="2025-04-01"),
    Asked("2025-12-20", "Which language was Mara learning?", "Spanish", as_of="2024-05-01"),
    Asked("2025-12-20", "Which language was Mara learning?", None, ("Spanish since",),
          as_of="2022-05-01"),
]  # fmt: skip

BELIEVED = [
    Asked("2025-12-20", "In which city does Mara live?", "Oslo", ("Trondheim, by",),
          known_at="2025-02-01"),
    Asked("2025-12-20", "In which city does Mara live?", "Trondheim", ("Oslo",),
          known_at="2025-05-01"),
    Asked("2025-12-20", "In which city does Mara live?", "Copenhagen", known_at="2025-10-01"),
    Asked("2025-12-20", "In which city did Mara live?", "Oslo", as_of="2020-06-01",
          known_at="2025-03-10"),
    Asked("2025-12-20", "In which city did Mara live?", "Bergen", as_of="2020-06-01",
          known_at="2025-04-01"),
    Asked("2025-12-20", "Who is the employer of Mara?", "Ullevål", as_of="2025-02-20",
          known_at="2025-05-01"),
    Asked("2025-12-20", "Who is the employer of Mara?", "St Olav", as_of="2025-02-20",
          known_at="2025-08-25"),
    Asked("2025-12-20", "Who is the employer of Mara?", "St Olav", known_at="2025-05-01"),
    Asked("2025-12-20", "What is the cat of Mara called?", "Pixel", ("Pixie",),
          known_at="2025-03-01"),
    Asked("2025-12-20", "What is the cat of Mara called?", "Pixie", ("Pixel",),
          known_at="2025-05-01"),
    Asked("2025-12-20", "Which allergy does Mara have?", "penicillin", known_at="2025-06-10"),
    Asked("2025-12-20", "Which allergy does Mara have?", None, ("penicillin",),
          known_at="2025-05-25"),
    Asked("2025-12-20", "Which car does Mara drive?", "Volvo", ("Tesla",), known_at="2025-05-01"),
    Asked("2025-12-20", "What rent does Mara pay?", "12000", ("9500",), known_at="2025-11-01"),
]  # fmt: skip

QUESTIONS = NOW + THEN + BELIEVED
