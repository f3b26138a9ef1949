"""The http runtime against a real server on loopback."""

import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from butlers.llm import (
    Bounded,
    CompletionFailed,
    LanguageModel,
    NotReached,
    RuntimeOptions,
    Usage,
    language_model,
)
from llm.loopback import serving

SCHEMA = {
    "type": "object",
    "properties": {
        "facts": {"type": "array", "items": {"type": "string"}},
        "why": {"type": "string"},
    },
    "required": ["facts", "why"],
    "additionalProperties": False,
}
PROMPT = "Alice said that her favourite colour has always been a very dark green."


def chat(content: Any, finish: str = "stop", **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish, "message": {"content": content, **message}}
    return {"choices": [choice], "usage": {"prompt_tokens": 11, "completion_tokens": 7}}


class Server:
    """Answers whatever the test says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.answer: Callable[[], Response] = lambda: JSONResponse(chat("hello"))
        self.delay = 0.0

    async def respond(self, request: Request) -> Response:
        self.requests.append((dict(request.headers), await request.body()))
        await anyio.sleep(self.delay)
        return self.answer()

    @property
    def asked(self) -> dict[str, Any]:
        return json.loads(self.requests[-1][1])


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    route = Route("/v1/chat/completions", server.respond, methods=["POST"])
    with serving(Starlette(routes=[route])) as address:
        yield f"{address}/v1/chat/completions"


def http(url: str, **options: Any) -> LanguageModel:
    model = language_model(RuntimeOptions(kind="http", url=url, **options))
    assert model is not None
    return model


async def failure(model: LanguageModel, **how: Any) -> CompletionFailed:
    with pytest.raises(CompletionFailed) as failed:
        await model.complete(PROMPT, **how)
    assert "\n" not in str(failed.value) and "favourite colour" not in str(failed.value)
    return failed.value


async def test_a_completion(server: Server, url: str):
    completion = await http(url, model="tiny").complete(PROMPT, system="be brief", label="x")
    assert completion.text == "hello"
    assert completion.usage == Usage(11, 7, None)
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": PROMPT}]
    assert server.asked == {"model": "tiny", "stream": False, "messages": messages}
    assert "authorization" not in server.requests[-1][0]


async def test_the_address_of_the_api_is_enough(server: Server, url: str):
    base = url.removesuffix("/chat/completions")
    assert (await http(base + "/").complete(PROMPT)).text == "hello"


async def test_the_schema_is_asked_for_as_it_is(server: Server, url: str):
    server.answer = lambda: JSONResponse(chat('{"facts": ["a"], "why": "b"}'))
    completion = await http(url).complete(PROMPT, schema=SCHEMA)
    assert json.loads(completion.text) == {"facts": ["a"], "why": "b"}
    asked = server.asked["response_format"]
    assert asked["type"] == "json_schema" and asked["json_schema"]["strict"] is True
    assert asked["json_schema"]["schema"] == SCHEMA


async def test_an_answer_for_a_program_is_steady_and_ends(server: Server, url: str):
    await http(url).complete(PROMPT, schema=SCHEMA)
    asked = server.asked
    assert (asked["temperature"], asked["seed"], asked["max_tokens"]) == (0, 1, 4096)
    await http(url, context_tokens=2000).complete(PROMPT, schema=SCHEMA)
    assert server.asked["max_tokens"] == 1000


async def test_a_server_that_does_not_know_a_field_is_asked_without(server: Server, url: str):
    """Some models take no temperature; they are asked once more, and then always so."""
    told = {"error": {"message": "Unsupported value: 'temperature' does not support 0"}}
    answers = iter([JSONResponse(told, status_code=400), *(JSONResponse(chat("{}")),) * 2])
    server.answer = lambda: next(answers)
    model = http(url)
    assert (await model.complete(PROMPT, schema=SCHEMA)).text == "{}"
    await model.complete(PROMPT, schema=SCHEMA)
    assert len(server.requests) == 3 and "temperature" not in server.asked


NOT_REACHED = {"500", "error", "silent 503", "redirect", "no JSON", "not UTF-8", "a list", "deep"}


@pytest.mark.contract("L28")
async def test_what_says_nothing_about_the_question_is_told_apart(server: Server, url: str):
    for case, (given, _) in FAILURES.items():
        server.answer = given
        assert isinstance(await failure(http(url)), NotReached) == (case in NOT_REACHED), case
    late = await failure(http(url), timeout_seconds=0.001)
    assert isinstance(late, NotReached) and late.timed_out
    absent = await failure(http("http://127.0.0.1:9/v1"))
    assert isinstance(absent, NotReached) and not absent.timed_out


TOLD = {
    "llama.cpp": ("/props", {"default_generation_settings": {"n_ctx": 4096}}, 4096),
    "vLLM": ("/v1/models", {"data": [{"id": "m", "max_model_len": 32768}]}, 32768),
    "listed": ("/v1/models", {"data": [{"id": "m", "meta": {"n_ctx_train": 2048}}]}, 2048),
    "two": ("/v1/models", {"data": [{"id": "a", "max_model_len": 1}, {"id": "b"}]}, 0),
    "chosen": ("/v1/models", {"data": [{"id": "a"}, {"id": "tiny", "max_model_len": 512}]}, 512),
    "odd": ("/props", {"default_generation_settings": {"n_ctx": "many"}}, 0),
}


@pytest.mark.parametrize("case", TOLD)
async def test_what_a_model_can_read_is_what_its_server_says(case: str):
    path, told, tokens = TOLD[case]
    app = Starlette(routes=[Route(path, lambda _: JSONResponse(told))])
    with serving(app) as address:
        model = http(f"{address}/v1", model="tiny")
        assert isinstance(model, Bounded)
        assert await model.context_tokens() == tokens
        known = http(f"{address}/v1", context_tokens=7)
        assert isinstance(known, Bounded) and await known.context_tokens() == 7


async def test_the_key_is_sent_as_a_bearer(
    server: Server, url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MY_KEY", "key-of-mine")
    await http(url, api_key_env="MY_KEY").complete(PROMPT)
    assert server.requests[-1][0]["authorization"] == "Bearer key-of-mine"


async def test_the_key_never_travels_unencrypted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_KEY", "key-of-mine")
    model = http("http://models.invalid/v1/chat/completions", api_key_env="MY_KEY")
    assert "not sent over plain http" in str(await failure(model))


async def test_loopback_is_asked_past_any_proxy(
    server: Server, url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert (await http(url).complete(PROMPT)).text == "hello"


async def flood() -> AsyncIterator[bytes]:
    for _ in range(400):
        yield b"x" * 65536
        await anyio.sleep(0)


def plain(text: str | bytes, status: int = 200) -> Callable[[], Response]:
    return lambda: Response(text, status_code=status)


def answer(value: Any, status: int = 200) -> Callable[[], Response]:
    return lambda: JSONResponse(value, status_code=status)


FAILURES = {
    "500": (plain("boom", 500), "answered 500: boom"),
    "error": (answer({"error": {"message": "no such model"}}, 404), "answered 404: no such model"),
    "echo": (plain(f"cannot do: {PROMPT}", 400), "answered 400: [hidden]"),
    "silent 503": (plain("", 503), "answered 503: no reason given"),
    "redirect": (lambda: RedirectResponse("https://elsewhere.invalid/"), "answered 307"),
    "no JSON": (plain("<html>"), "did not answer with a JSON object"),
    "not UTF-8": (plain(b"\xff\xfe"), "did not answer with a JSON object"),
    "a list": (answer([1]), "did not answer with a JSON object"),
    "deep": (plain("[" * 100_000), "did not answer with a JSON object"),
    "no choices": (answer({"choices": []}), "empty answer"),
    "odd choices": (answer({"choices": {"0": 1}, "usage": [1]}), "empty answer"),
    "odd choice": (answer({"choices": [7]}), "empty answer"),
    "odd content": (answer(chat({"a": 1})), "empty answer"),
    "refusal": (answer(chat(None, refusal="I would rather not")), "declined: I would rather not"),
    "cut off": (answer(chat('{"fac', "length")), "cut off at the model's output limit"),
    "flood": (lambda: StreamingResponse(flood()), "more than 4 MB"),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_failures_say_why(server: Server, url: str, case: str):
    server.answer, reason = FAILURES[case]
    assert reason in str(await failure(http(url)))


async def test_a_failure_after_the_model_worked_still_says_what_it_cost(server: Server, url: str):
    server.answer = answer(chat("", "length"))
    assert (await failure(http(url))).usage == Usage(11, 7, None)


@pytest.mark.parametrize("tokens", [-1, True, "7", 1.5, None, 10**30, [1]])
async def test_odd_usage_is_not_reported(server: Server, url: str, tokens: Any):
    usage = {"prompt_tokens": tokens, "completion_tokens": 3}
    server.answer = answer({**chat("hello"), "usage": usage})
    assert (await http(url).complete(PROMPT)).usage == Usage(None, 3, None)


async def test_a_slow_server_is_given_up(server: Server, url: str):
    server.delay = 3.0
    started = time.monotonic()
    reason = str(await failure(http(url, timeout_seconds=0.3)))
    assert "did not answer within 0.3 s" in reason
    assert time.monotonic() - started < 2


async def drip() -> AsyncIterator[bytes]:
    for _ in range(30):
        yield b" "
        await anyio.sleep(0.1)


async def test_a_server_that_drips_is_given_up_too(server: Server, url: str):
    server.answer = lambda: StreamingResponse(drip())
    assert "within 0.4 s" in str(await failure(http(url), timeout_seconds=0.4))


async def test_nobody_at_the_address(url: str):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    reason = str(await failure(http(f"http://me:secret@127.0.0.1:{port}/v1")))
    assert reason.startswith(f"http://127.0.0.1:{port} cannot be asked")
    assert "check runtime.url" in reason and "secret" not in reason


async def test_a_lone_surrogate_reaches_the_server_as_a_replacement(server: Server, url: str):
    await http(url).complete("a\ud800b")
    assert server.asked["messages"][0]["content"] == "a\ufffdb"
