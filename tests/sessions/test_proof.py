"""Sessions through the hooks of a running home: what they were given, and whether it helped."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from butlers.host.home_tokens import ensure_hook_token
from butlers.sessions import spool
from interfaces.daemons import Daemon, butlers, operating, until, up
from interfaces.furnished import furnished_home

FACTS = {
    "cache": "the cache listens on port 6390 on my laptop",
    "build": "the shop is built with pnpm and never with yarn",
    "allotment": "the allotment is watered from tap 17",
}
PROMPTS = {
    "used": ("Which port does the cache listen on?", "It is 6390 here.", "Thanks."),
    "ignored": ("How is the shop built?", "Run make, then upload the folder.", "All right."),
    "harmful": (
        "Which tap is the allotment watered from?",
        "From tap 17.",
        "No, that is outdated: the allotment is watered from tap 22 now.",
    ),
}


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with furnished_home("general") as home, up(home) as running:
        for about, content in FACTS.items():
            fact = (about, "known", content, "--home", home.root)
            assert butlers("memory", "store-fact", *fact).returncode == 0
        ensure_hook_token(home, "general", "default")
        with client_of(running) as client:
            # The first to ask waits for the model to be read.
            until(lambda: FACTS["cache"] in hook(client, "SessionStart", "warm")["context"])
            with reader_of(running) as reader:
                for name, turns in PROMPTS.items():
                    session(client, reader, name, *turns)
        yield running


def reader_of(daemon: Daemon) -> httpx2.Client:
    allowed = operating(daemon.home)
    token = run(daemon, "token", "new", "--rights", "read", env=allowed).split()[-1]
    return httpx2.Client(
        trust_env=False,
        headers={"Authorization": f"Bearer {token}"},
        base_url=f"{daemon.url}/api/butlers/general/",
    )


def client_of(daemon: Daemon) -> httpx2.Client:
    token = daemon.home.hook_token_file("general").read_text().strip()
    return httpx2.Client(
        trust_env=False,
        timeout=30,
        headers={"Authorization": f"Bearer {token}"},
        base_url=f"{daemon.url}/butlers/general/hooks/",
    )


def hook(client: httpx2.Client, event: str, session_id: str, **more: str) -> dict[str, Any]:
    answer = client.post(event, json={"session_id": session_id, "cwd": "/x/shop", **more})
    return dict(answer.json())


def session(
    client: httpx2.Client, reader: httpx2.Client, name: str, asked: str, answered: str, after: str
) -> None:
    """A session of three turns: its prompt is given something, then its transcript is stored."""
    session_id = f"session-{name}"
    assert FACTS_OF[name] in hook(client, "UserPromptSubmit", session_id, prompt=asked)["context"]
    # It is recorded after the answer was sent.
    until(lambda: "lines" in reader.get(f"sessions/{session_id}/injections").text)
    said = [("user", asked), ("assistant", answered), ("user", after), ("assistant", "Noted.")]
    lines = [
        {"type": role, "message": {"role": role, "content": text}, "timestamp": str(number)}
        for number, (role, text) in enumerate(said)
    ]
    hook(client, "SessionEnd", session_id, transcript="\n".join(map(json.dumps, lines)))


FACTS_OF = dict(zip(PROMPTS, FACTS.values(), strict=True))


def run(daemon: Daemon, *words: str, **how: Any) -> str:
    done = butlers(*words, "--home", daemon.home.root, **how)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def injections(daemon: Daemon, session_id: str) -> list[dict[str, Any]]:
    shown = json.loads(run(daemon, "sessions", "show", session_id, "--json"))
    return list(shown["injections"])


@pytest.mark.parametrize("name", PROMPTS)
def test_what_became_of_a_memory_is_read_from_the_transcript(daemon: Daemon, name: str) -> None:
    (injection,) = injections(daemon, f"session-{name}")
    assert (injection["event"], injection["outcome"]) == ("prompt", "delivered")
    assert injection["asked"] == PROMPTS[name][0]
    assert injection["tokens"] > 0
    verdicts = {line["text"]: line["verdict"] for line in injection["lines"]}
    (own,) = (verdict for text, verdict in verdicts.items() if FACTS_OF[name] in text)
    assert own == name


def test_a_session_is_told_in_sentences(daemon: Daemon) -> None:
    shown = run(daemon, "sessions", "show", "session-used")
    assert "Prompt: “Which port does the cache listen on?”." in shown
    assert "Given: cache: the cache listens on port 6390 on my laptop (relevance " in shown
    assert "the answer used it" in shown
    assert "told" not in shown
    assert "the user corrected it" in run(daemon, "sessions", "show", "session-harmful")
    assert "the answer did not use it" in run(daemon, "sessions", "show", "session-ignored")


def test_a_prompt_that_gets_nothing_is_on_record_too(daemon: Daemon) -> None:
    with client_of(daemon) as client:
        hook(client, "UserPromptSubmit", "session-thanks", prompt="Thanks!")
    until(lambda: injections(daemon, "session-thanks"))
    (injection,) = injections(daemon, "session-thanks")
    assert (injection["outcome"], injection["lines"]) == ("nothing", [])
    assert "Nothing was given" in run(daemon, "sessions", "show", "session-thanks")


def test_why_a_memory_was_not_given_has_an_answer(daemon: Daemon) -> None:
    why_not = ("sessions", "show", "session-used", "--why-not")
    assert "It was given: cache" in run(daemon, *why_not, FACTS["cache"])
    assert "Its relevance was too low" in run(daemon, *why_not, FACTS["allotment"])
    fact = ("bakery", "opens", "the bakery opens at seven", "--home", daemon.home.root)
    assert butlers("memory", "store-fact", *fact).returncode == 0
    assert "It was not stored yet" in run(daemon, *why_not, "when does the bakery open?")


def test_what_memory_was_worth_is_summed_up(daemon: Daemon) -> None:
    worth = json.loads(run(daemon, "worth", "--json"))
    assert worth["given"] == 3
    assert (worth["used"], worth["ignored"], worth["harmful"]) == (1, 1, 1)
    assert [group["project"] for group in worth["by"]] == ["shop"]
    assert worth["most_used"][0]["text"] == f"cache: {FACTS['cache']}"
    shown = run(daemon, "worth")
    assert "memory was given at 3 of " in shown
    assert "Answers used it at 1, ignored it at 1; the user corrected it at 1" in shown
    assert max(map(len, shown.splitlines()[-2:])) <= 80


def test_the_api_tells_the_same(daemon: Daemon) -> None:
    with reader_of(daemon) as reader:
        given = reader.get("sessions/session-used/injections").json()["injections"]
        assert given[0]["lines"][0]["verdict"] == "used"
        asked = {"memory": FACTS["cache"]}
        answer = reader.get("sessions/session-used/why-not", params=asked).json()
        assert answer["prompts"][0]["answer"].startswith("It was given")
        assert reader.get("worth", params={"days": 7}).json()["used"] == 1


def test_a_hook_that_gave_up_is_recorded_and_counted(daemon: Daemon) -> None:
    about = {"butler": "general", "session": "session-late", "event": "UserPromptSubmit"}
    file = str(daemon.home.root / spool.WITHOUT_MEMORY)
    before = json.loads(run(daemon, "worth", "--json"))["failed"]
    spool.note(file, {**about, "why": "no answer in 1.5 seconds"})
    until(lambda: json.loads(run(daemon, "worth", "--json"))["failed"] == before + 1)
    shown = run(daemon, "sessions", "show", "session-late")
    assert "Memory was not delivered: no answer in 1.5 seconds." in shown
    time.sleep(1)
    assert json.loads(run(daemon, "worth", "--json"))["failed"] == before + 1


def test_who_is_erased_is_in_no_injection(daemon: Daemon) -> None:
    fact = ("Wilmarie", "shift", "Wilmarie opens the bakery", "--home", daemon.home.root)
    assert butlers("memory", "store-fact", *fact).returncode == 0
    with client_of(daemon) as client:
        prompt = "Who opens the bakery?"
        hook(client, "UserPromptSubmit", "session-erased", prompt=prompt)
    until(lambda: "Wilmarie" in str(injections(daemon, "session-erased")))
    assert "injection" in run(daemon, "erase", "--about", "Wilmarie")
    receipt = daemon.home.root / "receipt.json"
    erase = ("erase", "--about", "Wilmarie", "--yes", "--receipt", str(receipt))
    run(daemon, *erase, env=operating(daemon.home))
    assert json.loads(receipt.read_text())["counts"]["injection"] == 1
    assert injections(daemon, "session-erased") == []
