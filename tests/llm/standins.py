"""Stand-ins for the two APIs that the command lines speak to, each playing a script.

A stand-in answers one request per step and repeats the last step for ever after.
"""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from llm.loopback import serving

Event = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Say:
    """The model writes a text."""

    text: str


@dataclass(frozen=True)
class Call:
    """The model calls a tool, whether or not it was offered."""

    tool: str
    arguments: Any


@dataclass(frozen=True)
class Wait:
    """The model thinks for longer than anybody waits."""

    seconds: float = 60.0


@dataclass(frozen=True)
class Fail:
    """The API refuses."""

    status: int
    message: str


Step = Say | Call | Wait | Fail


@dataclass
class StandIn:
    """What an API was asked, and what it is to answer."""

    steps: Sequence[Step] = (Say("hello"),)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    async def next_step(self, request: Request) -> Step:
        self.headers.append(dict(request.headers))
        self.requests.append(await request.json())
        step = self.steps[min(len(self.requests), len(self.steps)) - 1]
        if isinstance(step, Wait):
            await anyio.sleep(step.seconds)
        return step

    async def other(self, request: Request) -> Response:
        """Anything else a command line asks for; a WebSocket it is told to do without."""
        if "upgrade" in request.headers:
            return Response(status_code=426)
        self.others.append(f"{request.method} {request.url.path}")
        return JSONResponse({"data": [], "models": []})


def _stream(events: Sequence[Event]) -> StreamingResponse:
    async def lines() -> AsyncIterator[str]:
        for kind, content in events:
            yield f"event: {kind}\ndata: {json.dumps({'type': kind, **content})}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


def _refusal(step: Fail) -> Response:
    error = {"type": "invalid_request_error", "message": step.message}
    return JSONResponse({"type": "error", "error": error}, status_code=step.status)


class Anthropic(StandIn):
    """The Messages API."""

    path = "/v1/messages"

    async def respond(self, request: Request) -> Response:
        step = await self.next_step(request)
        return _refusal(step) if isinstance(step, Fail) else _stream(self._events(step))

    def _events(self, step: Step) -> list[Event]:
        block, delta, stop = self._content(step)
        usage = {"input_tokens": 10, "cache_read_input_tokens": 4, "output_tokens": 1}
        message = {
            "id": f"msg_{len(self.requests)}",
            "type": "message",
            "role": "assistant",
            "model": self.requests[-1]["model"],
            "content": [],
            "usage": usage,
            "stop_reason": None,
            "stop_sequence": None,
        }
        ending = {"delta": {"stop_reason": stop, "stop_sequence": None}}
        return [
            ("message_start", {"message": message}),
            ("content_block_start", {"index": 0, "content_block": block}),
            ("content_block_delta", {"index": 0, "delta": delta}),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {**ending, "usage": {"output_tokens": 12}}),
            ("message_stop", {}),
        ]

    def _content(self, step: Step) -> tuple[dict[str, Any], dict[str, Any], str]:
        if isinstance(step, Call):
            call = {"type": "tool_use", "id": f"toolu_{len(self.requests)}", "name": step.tool}
            arguments = json.dumps(step.arguments)
            delta = {"type": "input_json_delta", "partial_json": arguments}
            return {**call, "input": {}}, delta, "tool_use"
        text = step.text if isinstance(step, Say) else ""
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": text}, "end_turn"


class OpenAi(StandIn):
    """The Responses API."""

    path = "/v1/responses"

    async def respond(self, request: Request) -> Response:
        step = await self.next_step(request)
        return _refusal(step) if isinstance(step, Fail) else _stream(self._events(step))

    def _events(self, step: Step) -> list[Event]:
        number = len(self.requests)
        item = self._item(step, number)
        response = {"id": f"resp_{number}", "object": "response"}
        usage = {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        }
        done = {**response, "status": "completed", "output": [item], "usage": usage}
        return [
            ("response.created", {"response": {**response, "status": "in_progress"}}),
            ("response.output_item.added", {"output_index": 0, "item": {**item, "content": []}}),
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": done}),
        ]

    def _item(self, step: Step, number: int) -> dict[str, Any]:
        if isinstance(step, Call):
            call = {"id": f"call_item_{number}", "call_id": f"call_{number}", "name": step.tool}
            if isinstance(step.arguments, str):
                return {**call, "type": "custom_tool_call", "input": step.arguments}
            return {**call, "type": "function_call", "arguments": json.dumps(step.arguments)}
        text = step.text if isinstance(step, Say) else ""
        content = [{"type": "output_text", "text": text, "annotations": []}]
        message = {"type": "message", "id": f"item_{number}", "role": "assistant"}
        return {**message, "status": "completed", "content": content}


@contextmanager
def standing_in(api: Anthropic | OpenAi) -> Iterator[str]:
    """The address at which the stand-in answers."""
    everything = Route("/{path:path}", api.other, methods=["GET", "POST", "HEAD"])
    routes = [Route(api.path, api.respond, methods=["POST"]), everything]
    with serving(Starlette(routes=routes)) as address:
        yield address
