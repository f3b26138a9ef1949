"""The category of a note, by its words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butlers.notebook import MemoryCategory, all_categories, categorize

EXAMPLES = {
    "config": ("db-settings", "default timeout and port of the host, from the environment"),
    "code": ("refactor-notes", "the function in this module raises an exception"),
    "person": ("anna", "her name is Anna, email anna@example.org, birthday in May"),
    "project": ("project:alpha", "milestone two of the roadmap before the release"),
    "credential": ("api-key", "secret token for GitHub"),
    "preference": ("editor", "prefers the dark theme and likes vim style"),
    "fact": ("france", "Paris is a city, by definition; see the documentation"),
    "conversation": ("yesterday", "we chatted in the meeting, she said and asked much"),
    "task": ("todo", "remind me to finish before the deadline, high priority"),
    "general": ("xyzzy", "plugh"),
}

NOTES = {
    "config": [
        ("limits", "threshold is 0.8 and the parameter k is 10"),
        ("new-ui", "feature flag on, verbose option off"),
        ("service", "listens on port 8080 of that host, endpoint /v2"),
        ("params", "alpha=0.1"),
        (".env", "A=1"),
        ("staging", "environment variables are in the url"),
        ("project-config", "lives beside the code"),
    ],
    "code": [
        ("handler", "export const handler = async (event) => { await run(event) }"),
        ("js", "let x = 1; var y = 2;"),
        ("parser", "the function returns a class, import it from the module"),
        ("slow", "SELECT is the slow query of the sql log"),
        ("sort", "implementation of the algorithm in python"),
        ("languages", "typescript and javascript, one interface"),
        ("func-map", "applies f to each element"),
        ("impl-notes", "uses recursion"),
        ("snippet", "print(1)"),
    ],
    "person": [
        ("alice", "Alice works at Acme, her role is director"),
        ("bob", "his name is Bob, phone 555 1234"),
        ("carol", "a colleague and member of the team"),
        ("who-is-eve", "Eve runs security"),
        ("contact:plumber", "Joe, 555 9876"),
        ("types", "the user writes an email to the manager"),
    ],
    "project": [
        ("next", "deploy the new version"),
        ("info", "the repo is on github, branch main"),
        ("repo-url", "https://github.com/acme/alpha"),
        ("deploy-steps", "build, push, restart"),
        ("plan", "milestone three of the sprint, then the next release"),
        ("architecture", "hexagonal, three services"),
        ("roadmap", "search first"),
    ],
    "credential": [
        ("github-token", "ghp_xxx"),
        ("wallet", "the mnemonic is twelve words"),
        ("vault", "the private key is in there"),
        ("client", "bearer from oauth"),
        ("server", "the api key is abc"),
        ("authentication", "see the safe"),
        ("laptop", "the passphrase is on the fridge"),
    ],
    "preference": [
        ("naming", "snake case by convention, ISO as format, tabs by habit"),
        ("currency", "format amounts with two decimals"),
        ("timezone", "Zurich by default"),
        ("drink", "dislikes coffee, likes green tea"),
        ("lunch", "favourite food is ramen"),
        ("pref:lang", "German"),
        ("ui-theme", "dark"),
    ],
    "fact": [
        ("ranking", "explanation of how results are scored"),
        ("rrf", "RRF refers to rank fusion, see the documentation"),
        ("ttl", "TTL stands for time to live, an acronym"),
        ("paris", "Paris is a city in France"),
        ("consistency", "the concept means that replicas converge"),
        ("what-is-rag", "retrieval augmented generation"),
        ("glossary", "all our terms"),
    ],
    "conversation": [
        ("standup", "recap of the meeting with the team"),
        ("convo", "he mentioned a new job"),
        ("delay", "Bob told me about the train"),
        ("kickoff", "notes from Monday: a long discussion"),
        ("cat", "the vet said she is fine"),
        ("summary:may", "much rain"),
    ],
    "task": [
        ("follow-up", "ask Bob about the invoice"),
        ("legal", "a blocker, assigned to Carol"),
        ("dentist", "the due date is Monday, high priority"),
        ("action-items", "write the letter, call the client"),
        ("taxes", "file before the deadline"),
        ("reminder", "water the plants"),
    ],
    "general": [
        ("weather", "It rained all day in Bern"),
        ("recipe", "two eggs, flour, milk"),
        ("trip", "the train leaves at nine"),
        ("lamp", "bulb is E27"),
    ],
}
"""Notes as people write them, by the category they are about."""


@pytest.mark.contract("K-A1", "K-A2")
def test_the_taxonomy_has_ten_categories() -> None:
    assert all_categories() == list(EXAMPLES)
    assert all(isinstance(category, MemoryCategory) for category in all_categories())


@pytest.mark.contract("K-A1")
@pytest.mark.parametrize("category", EXAMPLES)
def test_each_category_is_found_by_its_words(category: str) -> None:
    assert categorize(*EXAMPLES[category]).category == category


@pytest.mark.contract("K-I11")
def test_no_keyword_is_general_with_no_confidence() -> None:
    found = categorize("xyzzy", "plugh")
    assert (found.category, found.confidence) == ("general", 0.0)


@pytest.mark.contract("L24")
@pytest.mark.parametrize(
    ("category", "key", "content"),
    [(category, *note) for category, notes in NOTES.items() for note in notes],
)
def test_ordinary_notes_get_the_category_they_speak_of(
    category: str, key: str, content: str
) -> None:
    assert categorize(key, content).category == category


@pytest.mark.contract("K-I11")
def test_every_sign_adds_to_the_confidence_until_there_is_no_doubt() -> None:
    signs = ("timeout", "and port", "of the host", "behind the url", "by the flag", "and option")
    texts = [" ".join(signs[: n + 1]) for n in range(len(signs))]
    found = [categorize("x", text).confidence for text in texts]
    assert found == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])


@pytest.mark.contract("L24")
def test_what_may_be_a_secret_is_not_taken_for_something_else() -> None:
    assert categorize("x", "a password and a meeting").category == "credential"
    assert categorize("x", "a meeting and a password").category == "credential"


@pytest.mark.contract("K-I11")
@given(
    st.text(max_size=20),
    st.lists(
        st.sampled_from(" ".join(text for pair in EXAMPLES.values() for text in pair).split()),
        max_size=30,
    ),
)
def test_confidence_is_zero_or_from_the_floor_to_one(key: str, words: list[str]) -> None:
    found = categorize(key, " ".join(words))
    if found.category == "general":
        assert found.confidence == 0.0
    else:
        assert 0.1 <= found.confidence <= 1.0


def test_the_key_says_more_than_the_content() -> None:
    assert categorize("password", "a chat").category == "credential"


def test_a_key_is_read_whatever_holds_its_words_together() -> None:
    for key in ("db-password", "db_password", "db.password", "dbPassword", "DB PASSWORD"):
        assert categorize(key, "hunter2").category == "credential"


def test_a_word_may_be_bent() -> None:
    for content in ("it was deployed", "deploying it", "a deployment", "both repositories"):
        assert categorize("x", content).category == "project"


@pytest.mark.parametrize(
    "content",
    [
        "unsettling tokenization classical",
        "an important report of the authors in support of it",
        "remember the transaction in the factory",
        "let's go, it's also this apple",
    ],
)
def test_parts_of_words_are_no_keywords(content: str) -> None:
    assert categorize("x", content).category == "general"
