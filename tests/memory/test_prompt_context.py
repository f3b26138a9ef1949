"""The few lines that a prompt of an agent gets: what bears on it, decisions first, or nothing."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from butlers.embedding import get_embedding_engine
from butlers.memory.flows import remember
from butlers.memory.flows.context import ContextQuery, build_context
from butlers.memory.flows.prompt_context import PromptQuery, build_prompt_context
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, NewEpisode, NewFact, NewRule, PieceKind
from butlers.memory.policy import question
from butlers.memory.policy.changes import replaced_by
from conftest import WalkingClock

NOTHING = "# Memory Context\n"


@pytest.fixture
def memory(memory: Memory) -> Memory:
    return replace(memory, embedder=get_embedding_engine)


def piece(text: str, session, clock: WalkingClock, kind=PieceKind.ANSWER, place: int = 1):
    return NewEpisode(
        text, "general", session, piece=kind, place=place, said_at=clock.now,
        metadata={"session": str(session), "part": str(session)},
    )  # fmt: skip


async def told(memory: Memory, prompt: str, lineage: Lineage, **options) -> str:
    query = PromptQuery(prompt, "general", 235, **options)
    return (await build_prompt_context(memory, query, lineage)).block.text


async def test_a_prompt_gets_what_bears_on_it_and_nothing_else(memory, lineage, clock):
    port = "which redis port? → The cache listens on port 6390 on this laptop."
    for text in (port, "birthday cake for Ilse → A lemon cake with poppy seeds."):
        await remember.store_episode(memory, piece(text, uuid4(), clock), lineage)
    text = await told(memory, "set REDIS_URL, the cache port is wrong", lineage)
    assert "6390" in text and "lemon" not in text
    assert await told(memory, "write a haiku about unit tests", lineage) == NOTHING


async def test_what_a_session_has_already_is_left_out(memory, lineage):
    known = await remember.store_fact(memory, NewFact("Ann", "tea", "drinks green tea"), lineage)
    assert "green tea" in await told(memory, "which tea does Ann drink?", lineage)
    again = await told(memory, "which tea does Ann drink?", lineage, exclude=frozenset({known.id}))
    assert again == NOTHING


async def test_a_decision_comes_with_the_piece_of_its_session(memory, lineage, clock):
    session, other = uuid4(), uuid4()
    said = "the nightly export breaks rows with a comma in the description → Looking at quoting."
    decided = "Final: export rows end with CRLF and quote a field only if it has a comma."
    await remember.store_episode(memory, piece(said, session, clock), lineage)
    settled = piece(decided, session, clock, PieceKind.DECISION, 2)
    await remember.store_episode(memory, settled, lineage)
    foreign = piece("We buy oat milk from now on.", other, clock, PieceKind.DECISION, 2)
    await remember.store_episode(memory, foreign, lineage)
    lines = (await told(memory, "the nightly export breaks rows again", lineage)).splitlines()
    shown = [line for line in lines if line.startswith("- ")]
    assert "CRLF" in shown[0] and not any("oat milk" in line for line in shown)


async def test_a_later_value_comes_first_and_the_earlier_says_until_when(memory, lineage, clock):
    first = "the cache listens on port 6380 on my laptop → Noted in the readme."
    await remember.store_episode(memory, piece(first, uuid4(), clock), lineage)
    clock.advance(days=7)
    later = "the cache listens on port 6390 on my laptop now → Changed in the readme."
    await remember.store_episode(memory, piece(later, uuid4(), clock), lineage)
    lines = (await told(memory, "which port has the cache on my laptop?", lineage)).splitlines()
    shown = [line for line in lines if line.startswith("- ")]
    assert "6390" in shown[0]
    assert (
        shown[1].startswith(f"- until {clock.now.day} {clock.now:%b %Y}: ") and "6380" in shown[1]
    )


async def test_settings_that_leave_episodes_out_hold_for_prompts_and_starts(memory, lineage, clock):
    text = "which redis port? → The cache listens on port 6390 on this laptop."
    await remember.store_episode(memory, piece(text, uuid4(), clock), lineage)
    decided = piece("We ship the cache on Tuesdays.", uuid4(), clock, PieceKind.DECISION)
    await remember.store_episode(memory, decided, lineage)
    await remember.store_fact(memory, NewFact("cache", "port", "listens on port 6390"), lineage)
    shares = memory.settings.context.model_copy(update={"episodes_share": 0.0})
    settings = memory.settings.model_copy(update={"context": shares})
    prompt, opening = "which port has the cache?", ContextQuery("", "general", opening=True)
    for known, shown in ((memory, True), (replace(memory, settings=settings), False)):
        texts = [await told(known, prompt, lineage)]
        texts.append((await build_context(known, opening, lineage)).text)
        assert all("[cache] [port]" in text for text in texts)
        assert [("redis" in text) for text in texts] == [shown, shown]
        assert ("Tuesdays" in texts[1]) is shown


async def test_a_rule_that_stands_is_not_told_at_every_prompt(memory, lineage):
    await remember.store_rule(memory, NewRule("Always answer in German"), lineage)
    assert await told(memory, "rename the variable in the parser", lineage) == NOTHING


async def test_words_do_where_the_vector_comes_too_late(memory, lineage, clock):
    text = "frobnicator timeout → The frobnicator timeout is 45 seconds."
    await remember.store_episode(memory, piece(text, uuid4(), clock), lineage)
    engine = get_embedding_engine()

    class Late:
        model, version, dimensions = engine.model, engine.version, engine.dimensions

        async def embed_async(self, _text):
            await asyncio.sleep(30)

        async def embed_batch_async(self, _texts):
            await asyncio.sleep(30)

    late = replace(memory, embedder=lambda: Late())
    query = PromptQuery("frobnicator timeout seconds", "general", 235, embedding_seconds=0.05)
    async with asyncio.timeout(10):
        found = await build_prompt_context(late, query, lineage)
    assert found.by_words and "45 seconds" in found.block.text


@pytest.mark.parametrize(
    "text",
    ["good", "yes, option 2 please", "hm ok", "no, leave it", "lgtm ship it", "👍", "ja mach das",
     "alles klar", "danke, reicht", "klingt gut, los", "variante 2", "merci, parfait"],
)  # fmt: skip
def test_a_reaction_asks_for_nothing(text):
    assert question.only_reacts(text)


@pytest.mark.parametrize(
    "text",
    ["which port is it", "where do we deploy?", "add the endpoint", "fix the invoice rounding",
     "wie heißt mein sohn", "rename foo to bar", "deploy to staging"],
)  # fmt: skip
def test_a_request_is_more_than_a_reaction(text):
    assert not question.only_reacts(text)


def test_sentences_of_other_matters_make_nothing_past(clock):
    days = [clock.now, clock.now + timedelta(days=3)]
    texts = ["we ship on tuesdays → Noted.", "the oven timer is set to 20 minutes → Good."]
    assert replaced_by(list(zip(texts, days, strict=True))) == {}
    changed = ["cache limit of 500 MB for map tiles", "map tiles: cache limit is 300 MB now"]
    assert replaced_by(list(zip(changed, days, strict=True))) == {0: 1}
    assert replaced_by(list(zip(changed, [days[0], days[0]], strict=True))) == {}
