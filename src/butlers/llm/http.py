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
    RuntimeOptions,
    Usage,
    answered,
)
from butlers.llm.envelopes import count, json_text, mapping, parse_object, text_of
from butlers.llm.redaction import Redaction

MAX_RESPONSE_BYTES = 4 * 1024 * 1024
CONNECT_SECONDS = 10.0

log = structlog.get_logger(__name__)


class HttpRuntime:
    """Asks one chat completion per prompt; there is nothing the model could call."""

    name = "http"

    def __init__(self, options: RuntimeOptions) -> None:
        self._options = options
        self._url = _endpoint(options.url)
        self._is_local = _is_loopback(urlsplit(options.url).hostname or "")
        self._is_readable_on_the_way = self._url.startswith("http://") and not self._is_local
        if self._is_readable_on_the_way:
            log.warning("prompts travel unencrypted", setting="runtime.url")

    async def complete(
        self,
        prompt: str,
        *,
        system: str = "",
        schema: Mapping[str, Any] | None = None,
        timeout_seconds: float = 300.0,
        label: str = "",
    ) -> Completion:
        """The content of the first choice."""
        del label  # Nothing about what asks goes to the server.
        key = self._key()
        redaction = Redaction.of({"API_KEY": key}, prompt, system)
        seconds = min(timeout_seconds, self._options.timeout_seconds)
        body = replace_surrogates(json_text(self._request(prompt, system, schema))).encode()
        status, content = await self._ask(body, key, seconds, redaction)
        return _completion(status, content.decode("utf-8", "replace"), redaction)

    def _key(self) -> str:
        key = self._options.api_key()
        if key and self._is_readable_on_the_way:
            raise CompletionFailed(
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
        return request

    async def _ask(
        self, body: bytes, key: str, seconds: float, redaction: Redaction
    ) -> tuple[int, bytes]:
        limits = httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        try:
            async with (
                asyncio.timeout(seconds),
                # A proxy of the environment has no business between this machine and itself.
                httpx2.AsyncClient(timeout=limits, trust_env=not self._is_local) as client,
                client.stream("POST", self._url, content=body, headers=headers) as response,
            ):
                return response.status_code, await _bounded(response)
        except (TimeoutError, httpx2.TimeoutException):
            raise CutOff(
                f"{self._where} did not answer within {seconds:g} s; "
                "runtime.timeout_seconds allows more"
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            said = redaction.line(str(error)) or type(error).__name__
            raise CompletionFailed(
                f"{self._where} cannot be asked: {said}; check runtime.url"
            ) from None

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


async def _bounded(response: httpx2.Response) -> bytes:
    content = bytearray()
    async for part in response.aiter_raw():
        content += part
        if len(content) > MAX_RESPONSE_BYTES:
            limit = MAX_RESPONSE_BYTES // 1024**2
            raise CompletionFailed(f"the server answered with more than {limit} MB")
    return bytes(content)


def _completion(status: int, content: str, redaction: Redaction) -> Completion:
    if status != 200:
        raise CompletionFailed(f"the server answered {status}: {_complaint(content, redaction)}")
    envelope = parse_object(content)
    if envelope is None:
        raise CompletionFailed(
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
