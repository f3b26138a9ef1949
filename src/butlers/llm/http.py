"""Completions from a server of the OpenAI chat protocol: Ollama, vLLM, llama.cpp or a cloud."""

import asyncio
import ipaddress
from collections.abc import Mapping
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
    completion_of,
)
from butlers.llm.envelopes import count, json_text, mapping, parse_object, text_of
from butlers.llm.redaction import Redaction

MAX_RESPONSE_BYTES = 4 * 1024 * 1024
CONNECT_SECONDS = 10.0
DETECT_SECONDS = 5.0
MAX_ANSWER_TOKENS = 4096
# Fields for the same answer to the same prompt, of limited length.
_DETERMINISTIC = {"temperature": 0, "seed": 1, "max_tokens": MAX_ANSWER_TOKENS}
# Status codes of a server that is overloaded, refuses the key or is misconfigured.
_NOT_NOW = frozenset({401, 402, 403, 404, 405, 407, 408, 409, 425, 429})

log = structlog.get_logger(__name__)


class HttpRuntime:
    """Asks for one chat completion per prompt; the model has no tools."""

    name = "http"

    def __init__(self, options: RuntimeOptions) -> None:
        self._options = options
        self._url = _endpoint(options.url)
        self._is_local = _is_loopback(urlsplit(options.url).hostname or "")
        self._deterministic: dict[str, Any] = _DETERMINISTIC
        self._context = options.context_tokens
        self._is_unencrypted = self._url.startswith("http://") and not self._is_local
        if self._is_unencrypted:
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
        """Return the first choice; the time limit is the caller's, else the setting."""
        del label  # The server is not told who asks.
        key = self._key()
        redaction = Redaction.of({"API_KEY": key}, prompt, system)
        seconds = timeout_seconds or self._options.timeout_seconds
        request = self._request(prompt, system, schema)
        status, content = await self._ask(request, key, seconds, redaction)
        if status in (400, 422) and any(name in content for name in self._deterministic):
            self._deterministic = {}  # the server refuses one of them
            request = self._request(prompt, system, schema)
            status, content = await self._ask(request, key, seconds, redaction)
        return _completion(status, content, redaction)

    async def context_tokens(self) -> int:
        """Return the setting, or else what the server reports."""
        if not self._context:
            self._context = await self._reported_context()
        return self._context

    async def _reported_context(self) -> int:
        """Ask llama.cpp for the context it was started with, others for that of the model."""
        root = self._url.removesuffix("/chat/completions").removesuffix("/v1")
        props = mapping((await self._get(f"{root}/props")).get("default_generation_settings"))
        if tokens := count(props.get("n_ctx")):
            return tokens
        return _context_of_model(self._options.model, await self._get(f"{root}/v1/models"))

    async def _get(self, url: str) -> Mapping[str, Any]:
        """Get a JSON object; empty on any failure."""
        key = self._key()
        try:
            status, content = await self._send("GET", url, key, DETECT_SECONDS)
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, ValueError, CompletionFailed):
            return {}
        return mapping(parse_object(content)) if status == 200 else {}

    def _key(self) -> str:
        key = self._options.api_key()
        if key and self._is_unencrypted:
            raise NotReached(
                "the key is not sent over plain http to another machine: give runtime.url https, "
                "or empty runtime.api_key_env"
            )
        return key

    def _request(
        self, prompt: str, system: str, schema: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt})
        request: dict[str, Any] = {"messages": messages, "stream": False}
        if self._options.model:
            request["model"] = self._options.model
        if schema is not None:
            answer = {"name": "answer", "strict": True, "schema": schema}
            request["response_format"] = {"type": "json_schema", "json_schema": answer}
            request |= self._deterministic
            if self._deterministic and self._context:
                request["max_tokens"] = min(MAX_ANSWER_TOKENS, self._context // 2)
        return request

    async def _send(
        self, method: str, url: str, key: str, seconds: float, body: bytes | None = None
    ) -> tuple[int, str]:
        """Send a request; return the status and the content of the response."""
        limits = httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        async with (
            asyncio.timeout(seconds),
            # No proxy for a server on this machine.
            httpx2.AsyncClient(timeout=limits, trust_env=not self._is_local) as client,
            client.stream(method, url, content=body, headers=headers) as response,
        ):
            return response.status_code, await _read_limited(response)

    async def _ask(
        self, request: Mapping[str, Any], key: str, seconds: float, redaction: Redaction
    ) -> tuple[int, str]:
        body = replace_surrogates(json_text(request)).encode()
        try:
            return await self._send("POST", self._url, key, seconds, body)
        except (TimeoutError, httpx2.TimeoutException):
            raise self._options.late(self._where, seconds) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            reason = redaction.line(str(error)) or type(error).__name__
            raise NotReached(
                f"{self._where} cannot be asked: {reason}; check runtime.url"
            ) from None

    @property
    def _where(self) -> str:
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _endpoint(url: str) -> str:
    """Return the URL of completions, also where only that of the API was given."""
    address = url.rstrip("/")
    return address + "/chat/completions" if address.endswith("/v1") else url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _context_of_model(name: str, listing: Mapping[str, Any]) -> int:
    """Return the context of the chosen model in a list of models, or of the only one."""
    data = listing.get("data")
    models = [mapping(model) for model in data] if isinstance(data, list) else []
    chosen = [model for model in models if model.get("id") == name] or models
    if len(chosen) != 1:
        return 0
    meta = mapping(chosen[0].get("meta"))
    sizes = (chosen[0].get("max_model_len"), meta.get("n_ctx"), meta.get("n_ctx_train"))
    return next(filter(None, map(count, sizes)), 0)


async def _read_limited(response: httpx2.Response) -> str:
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
        error = mapping(parse_object(content)).get("error")
        reason = text_of(mapping(error).get("message")) or text_of(error) or content
        raise kind(f"the server answered {status}: {redaction.line(reason) or 'no reason given'}")
    envelope = parse_object(content)
    if envelope is None:
        raise NotReached(
            "the server did not answer with a JSON object; is runtime.url its address of "
            "chat completions?"
        )
    choices = envelope.get("choices")
    choice = mapping(choices[0]) if isinstance(choices, list) and choices else {}
    message, counts = mapping(choice.get("message")), mapping(envelope.get("usage"))
    usage = Usage(count(counts.get("prompt_tokens")), count(counts.get("completion_tokens")))
    if refusal := text_of(message.get("refusal")):
        raise CompletionFailed(f"the model declined: {redaction.line(refusal)}", usage)
    if choice.get("finish_reason") == "length":
        raise CutOff("the answer was cut off at the model's output limit", usage)
    text, model = text_of(message.get("content")), text_of(envelope.get("model"))
    return completion_of("the server", text, usage, model)
