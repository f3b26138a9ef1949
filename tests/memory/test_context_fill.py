"""A context is filled with what answers, the best first, and cut to what matches."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from butlers.auth.rights import Caller
from butlers.clock import utc_now
from butlers.embedding import get_embedding_engine
from butlers.memory.flows import context, recall, remember
from butlers.memory.flows.candidates import CandidateQuery
from butlers.memory.flows.context import ContextQuery, build_context
from butlers.memory.model import NewEpisode, NewFact
from butlers.memory.operations.operation_context import OperationContext
from butlers.memory.operations.retrieval import ContextInput, context_query
from butlers.memory.policy import question
from butlers.memory.policy.excerpt import ExcerptOf, excerpt, without_repeats

STORES = Path(__file__).parents[2] / "bench" / "stores" / "prompts"


@pytest.fixture
def real(memory):
    return replace(memory, embedder=get_embedding_engine)


def lines(name):
    every = [json.loads(line) for line in (STORES / name).read_text("utf-8").splitlines()]
    return [line for line in every if line["store"] == every[0]["store"]]


@pytest.mark.contract("L49")
async def test_a_context_is_filled_to_its_budget(real, lineage):
    for line in lines("memories.jsonl"):
        await remember.store_episode(real, NewEpisode(line["text"], "general"), lineage)
    prompt = lines("queries.jsonl")[0]["text"]
    built = await build_context(real, ContextQuery(prompt, token_budget=500), lineage)
    assert 500 - 80 < built.block.tokens <= 500
    foreign = ContextQuery("Which bus goes to the stadium on match days?", token_budget=500)
    assert (await build_context(real, foreign, lineage)).text == "# Memory Context\n"


@pytest.mark.contract("L49")
async def test_a_question_that_wants_many_gets_many(real, lineage):
    for number in range(30):
        new = NewFact("Ann", f"visited {number}", f"Bergen harbour {number}")
        await remember.store_fact(real, new, lineage)

    async def found(text, limit=None):
        return await recall.recall(real, CandidateQuery(text), limit, lineage, counted=False)

    many = await found("Which places has Ann visited?")
    assert len(many) > recall.DEFAULT_LIMIT >= len(await found("Did Ann see Bergen harbour 7?"))
    assert len(await found("Which places has Ann visited?", 5)) == 5, "a caller's limit holds"


async def test_a_line_tells_the_day_it_was_said_and_who_said_it(memory, lineage, clock):
    said = clock.now.replace(year=2025, month=3, day=9)
    new = NewEpisode("the tea house closes early", "general", said_at=said, author="Ann")
    await remember.store_episode(memory, new, lineage)
    built = await build_context(memory, ContextQuery("when does the tea house close?"), lineage)
    assert "- 2025-03-09, Ann (via an agent): the tea house closes early\n" in built.text


async def test_without_a_butler_a_context_is_built_from_all_that_recall_finds(memory):
    ctx = OperationContext.of(memory, Caller("default", "tester"))
    new = NewFact("Ann", "tea", "green tea", scope="project:somewhere")
    await remember.store_fact(memory, new, ctx.lineage)
    for butler, found in ((None, True), ("general", False)):
        query = await context_query(ctx, ContextInput(trigger_prompt="green tea", butler=butler))
        built = await build_context(memory, query, ctx.lineage)
        assert ("green tea" in built.text) is found


@pytest.mark.parametrize("text", ["good", "ok, thanks!", "Yes, do it.", "danke", "sounds good"])
async def test_an_acknowledgement_gets_nothing(memory, lineage, text):
    await remember.store_fact(memory, NewFact("Ann", "note", text), lineage)
    assert question.read(text, frozenset(), utc_now()).acknowledges
    built = await context.build_context(memory, ContextQuery(text), lineage)
    assert built.text == "# Memory Context\n"


@pytest.mark.parametrize("text", ["is it good?", "thanks, which port is it?", "do the dishes", ""])
def test_a_question_is_no_acknowledgement(text):
    assert not question.read(text, frozenset(), utc_now()).acknowledges


@pytest.mark.parametrize(
    ("text", "many"),
    [
        ("Which books has Tim read?", True),
        ("How many times did we meet?", True),
        ("Welche Städte hat sie besucht?", True),
        ("List the ports we use", True),
        ("Where does Ann live?", False),
        ("Which port does the cache use?", False),
    ],
)
def test_a_question_that_wants_many_is_known_by_its_form(text, many):
    assert question.read(text, frozenset(), utc_now()).wants_many is many


def test_an_excerpt_is_cut_around_what_matches():
    before = "We talked about the weather for a long while, and about nothing else. " * 6
    text = f"{before}The spare key lies under the third pot. Then the train came. {before}"
    cut = excerpt(text, ExcerptOf(["spare", "key"], order=9))
    assert "The spare key lies under the third pot." in cut
    assert cut.startswith("…") and cut.endswith("…") and len(cut) <= 182
    assert len(excerpt(text, ExcerptOf(["spare", "key"], order=0))) > len(cut)
    assert excerpt("short", ExcerptOf(["spare"])) == "short"
    assert excerpt("word " * 200, ExcerptOf(["absent"], order=9)).startswith("word word")


def test_what_says_the_same_is_shown_once():
    long = "Ann said that the train to Bergen leaves at 8:10 from track four"
    texts = [long, f"{long}!", long.replace("8:10", "9:10"), "tea", "tee", "tea"]
    assert without_repeats(texts) == [0, 2, 3, 4]
