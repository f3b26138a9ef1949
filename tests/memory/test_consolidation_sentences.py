"""What a small model is asked about and what becomes of it: statements, under plain keys."""

import json
import re

import pytest

from butlers.memory.flows.consolidation.run import run_consolidation
from butlers.memory.flows.proposals import find_proposals
from butlers.memory.policy.consolidation import brief_schema, sentence_names
from butlers.memory.policy.consolidation_brief import key_of, parse_brief
from butlers.memory.policy.consolidation_sentences import statement, statements
from memory.consolidation_stories import active_facts, infer, statuses, tell
from memory.scripted_model import ScriptedModel, answer, fact


class Small(ScriptedModel):
    """A model that can read a little."""

    async def context_tokens(self) -> int:
        return 4096


def described(*kinds: tuple[str, str, str], of: list[str]) -> str:
    """An answer that describes these sentences."""
    told = [dict(zip(("kind", "about", "property"), kind, strict=True)) for kind in kinds]
    return json.dumps({"sentences": dict(zip(sentence_names(of), told, strict=True))})


def describing(prompt: str) -> str:
    """An answer that takes every sentence for a fact of which nothing is known."""
    shown = re.findall(r'^\d+\. "(.*)"$', prompt, re.MULTILINE)
    return described(*[("fact", "", "")] * len(shown), of=shown)


@pytest.mark.parametrize(
    ("said", "stated"),
    [
        ("amounts are always integers, in cents.", "amounts are always integers, in cents"),
        # Without what only leads to it, and without what it asks for besides.
        ("oh and the cache listens on 6380", "the cache listens on 6380"),
        ("my sister doesn't eat fish btw.", "my sister doesn't eat fish"),
        ("I hate coriander, leave it out", "I hate coriander"),
        ("production is on 16.2, so set CI to 16 as well", "production is on 16.2"),
        ("Mila is allergic to horses, so no farm please", "Mila is allergic to horses"),
        ("My boss is Prof. Okafor", "My boss is Prof. Okafor"),
        ("no, i always commit myself", "i always commit myself"),
        # What is asked for always is stated, whatever its form.
        ("keep docs in british spelling please", "keep docs in british spelling"),
        ("antworten bitte immer deutsch", "antworten bitte immer deutsch"),
        ("never deploy on fridays", "never deploy on fridays"),
        ("wir releasen mittwochs um 14 uhr", "wir releasen mittwochs um 14 uhr"),
        ("田中さんは緑茶が好きです", "田中さんは緑茶が好きです"),
    ],
)
def test_a_statement_is_what_was_said_without_what_surrounds_it(said, stated):
    assert statement(said) == stated


@pytest.mark.parametrize(
    "said",
    [
        "can you write the release checklist",
        "fix it please",
        "run the tests",
        "let's decide on the queue",
        "kannst du die alten workspaces aufräumen",
        "null check warnung weg bitte",
        "how do i get the day of week in a template",
        "I want to set up the sensor thing",
        "wir brauchen nen endpoint für teilsendungen",
        "the deploy script hangs at the rollout",
        "gradle test geht auf meinem rechner nicht",
        "that's what i told him",
        "we never did the backfill did we",
        "sounds lovely, do it",
        "ok great",
        "billing/views.py:77: error: Argument 1 has an incompatible type",
    ],
)
def test_requests_questions_faults_and_reactions_state_nothing(said):
    assert statement(said) == ""


def test_a_date_or_a_title_ends_no_sentence():
    told = "Rui fängt am 2.11. an. Sie hat am 14. März frei. Prof. Okafor likes tea"
    assert statements([told]) == ["Rui fängt am 2.11. an", "Prof. Okafor likes tea"]


def test_only_what_people_say_is_listed_once_and_no_question():
    episode = (
        "Stated: We ship on tuesdays.\nThen: we ship on tuesdays. Does Ann like tea?\n"
        "Then: Ann likes tea. run the tests\nOutcome: The cache listens on port 6380."
    )
    assert statements([episode]) == ["We ship on tuesdays", "we ship on tuesdays", "Ann likes tea"]


@pytest.mark.parametrize(
    ("passage", "about", "prop", "key"),
    [
        ("the broker is on port 1884", "broker", "number", ("broker", "port")),
        ("the cache listens on 6380", "the cache", "thing", ("cache", "port")),
        ("Jonas is coeliac, so no flour", "Jonas", "coeliac", ("Jonas", "diet")),
        ("my sister doesn't eat fish", "sister", "eat", ("sister", "diet")),
        # A verb says who does it: what a model takes for the subject may be something else.
        ("I hate coriander", "coriander", "hate", ("user", "dislikes coriander")),
        ("Katrin owns the schema", "schema", "owner", ("Katrin", "owns schema")),
        ("we build with pnpm, not npm", "build", "tool", ("user", "uses pnpm")),
        ("I run Home Assistant here", "Home Assistant", "x", ("user", "uses home assistant")),
        ("für die events nehmen wir rabbitmq", "", "", ("user", "decided on rabbitmq")),
        ("we don't have a dryer", "", "", ("user", "have dryer")),
        # Another property is the model's, if it is a plain one and of this passage.
        ("shelf is my backup cli", "shelf", "purpose", ("shelf", "purpose")),
        ("Unser Zahlungsziel ist 14 Tage", "Zahlungsziel", "amount", ("Zahlungsziel", "amount")),
        ("my mum's birthday is on 9 May", "weekend", "plan", ("mum", "birthday")),
        ("the deadline is 15 March", "deadline", "date", ("user", "deadline")),
        ("staging is in Frankfurt", "staging", "location", ("staging", "location")),
    ],
)
def test_a_key_is_plain_words(passage, about, prop, key):
    assert key_of(about, prop, passage) == key


@pytest.mark.parametrize(
    ("passage", "about", "prop"),
    [
        ("Unser Zahlungsziel ist 14 Tage", "Maria", "diet"),
        ("30 min ist dem kunden zu grob", "30 min", "unit"),
        ("the archive is full of old letters of Ann", "Ann", "diet"),
        ("rounding of numbers", "rounding", "status"),
        ("gps: give up without a fix", "gps", "location"),
    ],
)
def test_what_cannot_be_named_in_plain_words_gets_no_key(passage, about, prop):
    assert key_of(about, prop, passage)[1] == ""
    told = described(("fact", about, prop), of=[passage])
    assert parse_brief(told, [passage]).new_facts == ()


@pytest.mark.parametrize("other", ["the cache is on port 6381 now", "cache port: 6390 since today"])
def test_another_sentence_about_the_same_gets_the_same_predicate(other):
    first = key_of("cache", "port", "the cache listens on 6380")
    assert key_of("cache", "setting", other) == first


def test_what_is_described_is_kept_in_the_words_of_the_person():
    told = ["the broker is on port 1884", "weasyprint it is", "never deploy on fridays"]
    said = described(
        ("fact", "broker", "port"), ("task", "user", "print"), ("chat", "", ""), of=told
    )
    result = parse_brief(said, told)
    assert [(one.subject, one.predicate, one.content) for one in result.new_facts] == [
        ("broker", "port", "the broker is on port 1884")
    ]
    assert [rule.content for rule in result.new_rules] == ["never deploy on fridays"]
    assert result.parse_errors == () and result.is_quoted


def test_two_statements_under_one_key_are_both_kept():
    told = ["the cache is on port 6380", "the cache has another port on my laptop"]
    said = described(("fact", "cache", "port"), ("fact", "cache", "port"), of=told)
    keys = [(one.subject, one.predicate) for one in parse_brief(said, told).new_facts]
    assert keys == [("cache", "port"), ("cache", "port laptop")]


def test_an_answer_in_another_form_is_a_fault():
    assert parse_brief("I cannot do that.", ["Ann likes tea"]).parse_errors


def test_the_schema_names_each_sentence_by_its_first_words():
    told = ["we build with pnpm, not npm", "Ann likes tea"]
    [(name, sentences)] = brief_schema(told)["properties"].items()
    assert name == "sentences"
    assert list(sentences["properties"]) == ["1. we build with", "2. Ann likes tea"]
    assert sentences["required"] == list(sentences["properties"])


async def test_a_model_is_not_asked_where_nobody_states_anything(memory, lineage, owner):
    await tell(memory, lineage, "Request: can you run the tests?\nThen: thanks\nOutcome: Done.")
    model = Small(describing)
    report = await run_consolidation(memory, model, lineage)
    assert (model.prompts, report.episodes_consolidated, report.facts_created) == ([], 1, 0)
    assert await statuses(owner) == ["consolidated"]


async def test_a_request_becomes_no_fact(memory, lineage, owner):
    told = "Request: write me a menu.\nThen: Jonas is coeliac. please add the tea list"
    await tell(memory, lineage, told)
    report = await run_consolidation(memory, Small(describing), lineage)
    assert (report.facts_created, report.errors) == (1, [])
    assert await active_facts(owner) == {("Jonas", "diet", "Jonas is coeliac")}


@pytest.mark.contract("L11")
async def test_what_a_small_model_would_replace_waits_for_a_person(memory, lineage, owner):
    await infer(memory, lineage, "cache", "port", "6380", scope="general")
    await tell(memory, lineage, "Stated: the cache listens on 6381. Ann likes tea.")
    report = await run_consolidation(memory, Small(describing), lineage)
    assert (report.proposals_made, report.facts_created, report.errors) == (1, 1, [])
    [waiting] = await find_proposals(memory, 10, lineage)
    assert "the cache listens on 6381" in json.dumps(waiting, default=str)
    assert ("cache", "port", "6380") in await active_facts(owner)
    assert await statuses(owner) == ["consolidated"]


@pytest.mark.contract("L29")
async def test_a_small_model_replaces_nothing_and_keeps_no_secret(memory, lineage, owner):
    said = ("Ann drinks tea", "Ann drinks rum", "Ann has a password: Kx9-tulip-42")
    for one in said:
        await tell(memory, lineage, f"{one}.")
    model = Small(lambda _: described(("fact", "Ann", "has"), of=[next(asked)]))
    asked = iter(said)
    report = await run_consolidation(memory, model, lineage)
    assert (report.facts_created, report.facts_updated) == (2, 0)
    assert {content for *_, content in await active_facts(owner)} == set(said[:2])
    assert await statuses(owner) == ["consolidated", "consolidated", "failed"]


@pytest.mark.contract("L29")
async def test_a_copy_of_an_episode_confirms_nothing(memory, lineage):
    said = ScriptedModel(answer(new_facts=[fact("Ann", "likes", "Ann likes tea")]))
    for told, confirmed in (("Ann likes tea", 0), ("Ann likes tea", 0), ("Tea again for Ann", 1)):
        await tell(memory, lineage, told)
        assert (await run_consolidation(memory, said, lineage)).confirmations_made == confirmed
