"""Completions from a server of the OpenAI chat protocol: Ollama, vLLM, llama.cpp or a cloud."""

import asyncio
import ipaddress
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx2
import structlog

from butlers.kernel.text import replace_surrogates
from butlers.llm.completion import (
    Completion,
    CompletionFailed,
    CutOff,
    NotReached,
    RuntimeOptions,
    Usage,
    answered,
)
from butlers.llm.envelopes import count, json_text, mapping, parse_object, text_of
from butlers.llm.redaction import Redaction

MAX_RESPONSE_BYTES = 4 * 1024 * 1024
CONNECT_SECONDS = 10.0
DETECT_SECONDS = 5.0
MAX_ANSWER_TOKENS = 4096
# An answer that a program reads is to be the same for the same question, and to end.
_STEADY = {"temperature": 0, "seed": 1, "max_tokens": MAX_ANSWER_TOKENS}
# What a server says that has no room, no right or no time for anybody now.
_NOT_NOW = frozenset({401, 402, 403, 404, 405, 407, 408, 409, 425, 429})

log = structlog.get_logger(__name__)


class HttpRuntime:
    """Asks one chat completion per prompt; there is nothing the model could call."""

    name = "http"

    def __init__(self, options: RuntimeOptions) -> None:
        self._options = options
        self._url = _endpoint(options.url)
        self._is_local = _is_loopback(urlsplit(options.url).hostname or "")
        self._steady: dict[str, Any] = _STEADY
        self._context = options.context_tokens
        self._is_readable_on_the_way = self._url.startswith("http://") and not self._is_local
        if self._is_readable_on_the_way:
            log.warning("prompts travel unencrypted", setting="runtime.url")

    async def complete(
        self,
        prompt: str,
        *,
        system: str = "",
        schema: Mapping[str, Any] | None = None,
        timeout_seconds: float | None = None,
        label: str = "",
    ) -> Completion:
        """The content of the first choice; one time limit holds: the caller's, else its own."""
        del label  # Nothing about what asks goes to the server.
        key = self._key()
        redaction = Redaction.of({"API_KEY": key}, prompt, system)
        seconds = timeout_seconds or self._options.timeout_seconds
        request = self._request(prompt, system, schema)
        status, content = await self._ask(request, key, seconds, redaction)
        if status in (400, 422) and self._gives_up(content):
            request = self._request(prompt, system, schema)
            status, content = await self._ask(request, key, seconds, redaction)
        return _completion(status, content, redaction)

    async def context_tokens(self) -> int:
        """What the settings say, else what the server says of itself, once it says so."""
        if not self._context:
            self._context = await self._told_context()
        return self._context

    async def _told_context(self) -> int:
        """llama.cpp tells what it was started with, others what their model can have."""
        root = self._url.removesuffix("/chat/completions").removesuffix("/v1")
        for path, read in (("/props", _served), ("/v1/models", partial(_listed, self._options))):
            if found := read(await self._told(root + path)):
                return found
        return 0

    async def _told(self, url: str) -> Mapping[str, Any]:
        """What a server says of itself; one that says nothing is no worse."""
        key = self._key()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            async with (
                asyncio.timeout(DETECT_SECONDS),
                self._client(DETECT_SECONDS) as client,
                client.stream("GET", url, headers=headers) as response,
            ):
                content = await _bounded(response)
                return mapping(parse_object(content)) if response.status_code == 200 else {}
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, ValueError, CompletionFailed):
            return {}

    def _gives_up(self, content: str) -> bool:
        """Whether it was refused because of a field that steadies answers; then none is sent."""
        refused = any(name in content for name in self._steady)
        if refused:
            self._steady = {}
        return refused

    def _key(self) -> str:
        key = self._options.api_key()
        if key and self._is_readable_on_the_way:
            raise NotReached(
                "the key is not sent over plain http to another machine: give runtime.url https, "
                "or empty runtime.api_key_env"
            )
        return key

    def _request(
        self, prompt: str, system: str, schema: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        messages = [{"role": "system", "content": system}] if system else []
        request: dict[str, Any] = {
            "messages": [*messages, {"role": "user", "content": prompt}],
            "stream": False,
        }
        if self._options.model:
            request["model"] = self._options.model
        if schema is not None:
            asked = {"name": "answer", "strict": True, "schema": schema}
            request["response_format"] = {"type": "json_schema", "json_schema": asked}
            request |= self._steady
            if self._steady and self._context:
                request["max_tokens"] = min(MAX_ANSWER_TOKENS, self._context // 2)
        return request

    def _client(self, seconds: float) -> httpx2.AsyncClient:
        limits = httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        # A proxy of the environment has no business between this machine and itself.
        return httpx2.AsyncClient(timeout=limits, trust_env=not self._is_local)

    async def _ask(
        self, request: Mapping[str, Any], key: str, seconds: float, redaction: Redaction
    ) -> tuple[int, str]:
        body = replace_surrogates(json_text(request)).encode()
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        try:
            async with (
                asyncio.timeout(seconds),
                self._client(seconds) as client,
                client.stream("POST", self._url, content=body, headers=headers) as response,
            ):
                return response.status_code, await _bounded(response)
        except (TimeoutError, httpx2.TimeoutException):
            raise self._options.late(self._where, seconds) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            said = redaction.line(str(error)) or type(error).__name__
            raise NotReached(f"{self._where} cannot be asked: {said}; check runtime.url") from None

    @property
    def _where(self) -> str:
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _endpoint(url: str) -> str:
    """The address of completions, also when only that of the API was given."""
    address = url.rstrip("/")
    return address + "/chat/completions" if address.endswith("/v1") else url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _served(told: Mapping[str, Any]) -> int:
    """The context of a server that was started with one."""
    return count(mapping(told.get("default_generation_settings")).get("n_ctx")) or 0


def _listed(options: RuntimeOptions, told: Mapping[str, Any]) -> int:
    """The context of the model that is asked for, in a list of models; of the only one there is."""
    data = told.get("data")
    models = [mapping(one) for one in data] if isinstance(data, list) else []
    chosen = [one for one in models if one.get("id") == options.model] or models
    if len(chosen) != 1:
        return 0
    meta = mapping(chosen[0].get("meta"))
    told_of = (chosen[0].get("max_model_len"), meta.get("n_ctx"), meta.get("n_ctx_train"))
    return next(filter(None, map(count, told_of)), 0)


async def _bounded(response: httpx2.Response) -> str:
    content = bytearray()
    async for part in response.aiter_raw():
        content += part
        if len(content) > MAX_RESPONSE_BYTES:
            limit = MAX_RESPONSE_BYTES // 1024**2
            raise CompletionFailed(f"the server answered with more than {limit} MB")
    return content.decode("utf-8", "replace")


def _completion(status: int, content: str, redaction: Redaction) -> Completion:
    if status != 200:
        kind = NotReached if status in _NOT_NOW or not 400 <= status < 500 else CompletionFailed
        raise kind(f"the server answered {status}: {_complaint(content, redaction)}")
    envelope = parse_object(content)
    if envelope is None:
        raise NotReached(
            "the server did not answer with a JSON object; is runtime.url its address of "
            "chat completions?"
        )
    choices = envelope.get("choices")
    choice = mapping(choices[0]) if isinstance(choices, list) and choices else {}
    return _chosen(choice, _usage(envelope), redaction, text_of(envelope.get("model")))


def _chosen(
    choice: Mapping[str, Any], usage: Usage, redaction: Redaction, model: str
) -> Completion:
    message = mapping(choice.get("message"))
    if refusal := text_of(message.get("refusal")):
        raise CompletionFailed(f"the model declined: {redaction.line(refusal)}", usage)
    if choice.get("finish_reason") == "length":
        raise CutOff("the answer was cut off at the model's output limit", usage)
    return answered("the server", text_of(message.get("content")), usage, model=model)


def _complaint(content: str, redaction: Redaction) -> str:
    error = mapping(parse_object(content)).get("error")
    said = text_of(mapping(error).get("message")) or text_of(error) or content
    return redaction.line(said) or "it said nothing"


def _usage(envelope: Mapping[str, Any]) -> Usage:
    usage = mapping(envelope.get("usage"))
    return Usage(count(usage.get("prompt_tokens")), count(usage.get("completion_tokens")))
