"""The essence of a session: every turn in it, what was stated first and whole, no noise."""

import importlib
import time
from pathlib import Path

import pytest

from butlers.sessions import essence
from butlers.sessions.essence import Essence
from butlers.sessions.spoken import own_sentences, without_pasted
from butlers.sessions.transcripts import Speaker, Transcript, Utterance

ROOT = Path(__file__).parents[2]


def said(*turns: str, answer: str = "Done.") -> Transcript:
    """Each turn with the same answer, a minute apart."""
    spoken = []
    for place, turn in enumerate(turns):
        at = f"2026-01-10T{place // 60:02}:{place % 60:02}"
        spoken += [
            Utterance(Speaker.USER, turn, f"{at}:00Z"),
            Utterance(Speaker.AGENT, answer, f"{at}:09Z"),
        ]
    return Transcript(spoken)


def only(*turns: str) -> Essence:
    (found,) = essence.of_transcript(said(*turns))
    return found


def whole(parts: list[Essence]) -> str:
    return "\n".join(part.text for part in parts)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch):
    """The bench of sessions."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("bench.sessions")


@pytest.mark.parametrize("half", ["dev", "heldout", "fresh"])
def test_what_the_labelled_sessions_state_is_kept_and_learned(bench, half: str) -> None:
    figures = bench.measure(half)
    assert figures.counts["statements"] >= 30
    assert figures.kept >= bench.LEAST_KEPT, figures.faults
    assert figures.precision >= bench.LEAST_PRECISION, figures.faults
    assert figures.recall >= 0.8, figures.faults
    assert figures.shares and figures.longest_share <= bench.MOST_SHARE


def test_the_labelled_sessions_are_what_they_are_said_to_be(bench) -> None:
    stores = [one for half in bench.HALVES for one in bench.stores(half)]
    assert {store["language"] for store, _ in stores} == {"en", "de", "es", "fr", "ru", "zh", "ja"}
    assert {3, 400} <= {len(turns) for _, turns in stores}
    labelled = [turn for _, turns in stores for turn in turns if turn.keep]
    assert len(labelled) >= 60
    assert all(sentence in turn.text for turn in labelled for sentence in turn.keep)
    assert all(text in turn.text for turn in labelled for _, text in turn.learn)
    # The same store is the same transcript every time.
    store, turns = stores[0]
    assert bench.transcript(store, turns) == bench.transcript(*next(bench.stores("dev")))


def test_what_was_stated_comes_first_and_whole() -> None:
    told = only(
        "Sort the list by town. And please remember: the flour must never come on a Friday.",
        "Show me the first ten. My screen always flickers. My name is Tobias Quint.",
        "ok",
    )
    assert told.text.splitlines() == [
        "Stated: And please remember: the flour must never come on a Friday.",
        "Stated: My name is Tobias Quint.",
        "Said: My screen always flickers.",
        "Request: Sort the list by town.",
        "Then: Show me the first ten.",
        "Then: ok",
        "Outcome: Done.",
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        *("From now on always run it twice.", "We decided to use cents.", "I prefer tabs."),
        *("Merk dir: freitags ist zu.", "Ich heiße Marlene.", "Wir haben Rot beschlossen."),
        *("Recuerda que el riego se apaga.", "Me llamo Jimena.", "Prefiero el azul."),
        *("N'oublie pas que le vernis sèche.", "Je m'appelle Odile.", "On a décidé d'arrêter."),
        *("Запомни: склад закрыт.", "Меня зовут Глеб.", "Мы решили подождать."),
        *("请记住：周日不送货。", "我叫林若溪。", "我们决定停售袋泡茶。"),
        *(
            "締め日は二十日だと覚えておいてください。",
            "私の名前はあかねです。",
            "必ず敬語でお願いします。",
        ),
        *(
            "Ricorda che il forno è spento.",
            "Onthoud dat de winkel dicht is.",
            "항상 존댓말을 쓰세요.",
        ),
    ],
)
def test_a_statement_late_in_a_long_turn_is_kept_whole_in_any_language(sentence: str) -> None:
    long = "The list of the suppliers has to be looked through once more. " * 40
    told = only(f"{long}{sentence}", "Go on.")
    assert told.text.splitlines()[0] in (f"Stated: {sentence}", f"Said: {sentence}")


def test_of_a_language_nobody_wrote_words_for_every_turn_keeps_its_ends() -> None:
    first, last = "Muista, että sauna lämpiää vasta illalla.", "Avain on naulassa oven vieressä."
    told = only("Korjaa tämä.", f"{first} {'Lue lista taas. ' * 90}{last}").text
    assert first in told and last in told
    assert len(told) < 800


def test_no_turn_takes_long_to_read() -> None:
    started = time.process_time()
    for piece in ("my ", "no, ", '"a. ', "if a, ", "# x\n\n", "a:\n", "```\n", "{}();=", "今後"):
        only(piece * (50_000 // len(piece)))
    only("Remember that my x is y. " * 2_000)
    assert time.process_time() - started < 10


def test_every_turn_of_a_long_session_is_in_it() -> None:
    turns = [f"Take step {number} of the long walk, " + "on and on " * 30 for number in range(300)]
    turns[150] = "I prefer rye bread."
    parts = essence.of_transcript(said(*turns))
    told = whole(parts)
    assert all(f"Take step {number} of" in told for number in range(300) if number != 150)
    assert "Stated: I prefer rye bread." in told
    assert len(parts) > 1
    assert all(len(part.text) <= essence.MAX_CHARACTERS for part in parts)
    assert [part.through for part in parts] == sorted({part.through for part in parts})
    assert all("Outcome: Done." in part.text for part in parts)


def test_parts_follow_each_other_without_gap_or_overlap() -> None:
    session = said(*(f"Take step {number}. I prefer number {number}." for number in range(400)))
    parts = essence.of_transcript(session)
    stated = [one.text for part in parts for one in part.statements]
    assert stated == [f"I prefer number {number}." for number in range(400)]
    after_first = essence.of_transcript(session.after(parts[0].through))
    assert after_first[0].statements[0] == parts[1].statements[0]


def test_a_turn_of_nothing_but_statements_stays_within_an_episode() -> None:
    many = " ".join(f"I prefer bread number {number}, the one with seeds." for number in range(500))
    for turn in (many, "我叫林。" * 5_000, "No, " + many):
        (part,) = essence.of_transcript(said(turn, answer="y" * 50_000))
        assert len(part.text) <= essence.MAX_CHARACTERS
        assert part.text.count("Stated: ") > 45
        assert all(f"Stated: {one.text}" in part.text for one in part.statements)
        assert part.text.endswith("y…")


@pytest.mark.parametrize("turn", ["?", "👍", "…", "1"])
def test_even_a_turn_without_words_is_one(turn: str) -> None:
    assert only("Fix it.", turn).text.splitlines()[1] == f"Then: {turn}"


LOG = "\n".join(f"2026-03-04T10:11:{second:02}Z ERROR till: always retry" for second in range(30))
TRACE = (
    'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\nValueError: never'
)
CODE = "```python\n# Remember: my cache is shared.\ndef f():\n    return 1\n```"
DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-always = 1\n+always = 2"


@pytest.mark.parametrize("pasted", [LOG, TRACE, CODE, DIFF])
def test_what_was_pasted_stays_out_and_the_words_around_it_stay(pasted: str) -> None:
    turn = f"Look at this.\n\n{pasted}\n\nNever retry on a Sunday."
    told = only(turn)
    assert "Stated: Never retry on a Sunday." in told.text
    assert "lines pasted]" in told.text and "Look at this." in told.text
    assert "till" not in told.text and "cache" not in told.text and "g()" not in told.text
    assert [one.text for one in told.statements] == ["Never retry on a Sunday."]


def test_a_list_a_short_snippet_and_prose_are_no_paste() -> None:
    for text in (
        "- buy flour\n- sweep the yard\n- call Ann\n- lock up",
        "Run `make test` and then `make docs`, please.",
        "Dr. Osei lives at 14 Elm Road. She has two dogs.\nThey bark.",
        "первое\nвторое\nтретье\nчетвёртое",
        "一行目\n二行目\n三行目",
        "今日は雨が降っています。" * 100,
    ):
        assert without_pasted(text) == text


def test_a_long_paste_hides_neither_what_is_said_before_nor_after_it() -> None:
    paste = "\n".join(f"row {number}; {number * 7}; {number * 11}" for number in range(20_000))
    told = only(f"Here are the rows.\n{paste}\n\nRemember that row 7 is wrong.")
    assert told.text.startswith(
        "Stated: Remember that row 7 is wrong.\nRequest: Here are the rows."
    )
    assert len(told.text) < 300


def test_sentences_end_where_people_end_them() -> None:
    wrapped = "This line is as long as lines are that some program has wrapped\nfor somebody."
    text = (
        f'Ask Dr. Hale, e.g. by mail. He said "Never. Not now." and left.\n{wrapped}\nok\nthen go'
    )
    assert own_sentences(text) == [
        "Ask Dr. Hale, e.g. by mail.",
        'He said "Never. Not now." and left.',
        wrapped,
        "ok",
        "then go",
    ]


def test_secrets_in_statements_are_masked() -> None:
    told = only("Remember that my token is sk-abcdefghijklmnop and the door is blue.")
    assert "sk-abc" not in told.text + str(told.statements)
    assert (
        told.statements[0].text
        == "Remember that my token is [secret: api key] and the door is blue."
    )
    assert told.secrets_masked == 1
