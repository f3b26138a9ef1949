"""What the conformance suite asks of a server made for it: tools, resources and prompts for tests.

They stand on the server of a butler as the product makes it, served on the product's own route.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Thread
from typing import Any

import httpx2
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.mcpserver.tools import Tool
from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    TextContent,
    TextResourceContents,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from butlers.interfaces.http_server import HttpServer, _guard, _lifespan, _mcp_route, listen
from butlers.interfaces.mcp.butler_mcp import ButlerMCP
from interfaces.daemons import Daemon

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


def text(words: str) -> TextContent:
    return TextContent(type="text", text=words)


def image() -> ImageContent:
    return ImageContent(type="image", data=PIXEL, mime_type="image/png")


def resource(uri: str, words: str, kind: str = "text/plain") -> EmbeddedResource:
    content = TextResourceContents(uri=uri, text=words, mime_type=kind)
    return EmbeddedResource(type="resource", resource=content)


CONTENTS = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [image()],
    "test_audio_content": [AudioContent(type="audio", data=PIXEL, mime_type="audio/wav")],
    "test_embedded_resource": [resource("test://embedded-resource", "This is embedded.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        image(),
        resource("test://mixed-content-resource", "{}", "application/json"),
    ],
    "json_schema_2020_12_tool": [text("ok")],
}


class ConformanceMCP(ButlerMCP):
    """The server of a butler, with what the suite asks for beside its own."""

    def make_tools(self, *given: Any) -> list[Tool]:
        """Add the suite's tools to the butler's."""
        own = [_tool(name, contents) for name, contents in CONTENTS.items()]
        own[-1].parameters = SCHEMA
        more = (test_error_handling, test_tool_with_progress, test_tool_with_logging)
        return [*super().make_tools(*given), *own, *(Tool.from_function(each) for each in more)]

    def add_what_is_read(self) -> None:
        """Add the suite's resources and prompts."""
        self.resource("test://static-text", name="text", mime_type="text/plain")(
            lambda: "A static text."
        )
        self.resource("test://static-binary", name="binary", mime_type="image/png")(
            lambda: b"\x89PNG"
        )

        @self.resource("test://template/{id}/data", mime_type="application/json")
        def template(id: str) -> str:
            return json.dumps({"id": id, "templateTest": True})

        for function in (
            test_simple_prompt,
            test_prompt_with_arguments,
            test_prompt_with_embedded_resource,
            test_prompt_with_image,
        ):
            self.add_prompt(Prompt.from_function(function, description="A prompt for the suite."))


def _tool(name: str, contents: list[Any]) -> Tool:
    async def answer() -> CallToolResult:
        return CallToolResult(content=contents)

    return Tool.from_function(answer, name, description="A tool for the suite.")


async def test_error_handling() -> str:
    """Fail."""
    raise ValueError("This tool intentionally returns an error for testing")


async def test_tool_with_progress(context: Context) -> str:
    """Report progress."""
    for progress in (0, 50, 100):
        await context.report_progress(progress, 100)
        await asyncio.sleep(0.05)
    return "done"


async def test_tool_with_logging(context: Context) -> str:
    """Send messages."""
    for words in ("started", "processing", "completed"):
        params = LoggingMessageNotificationParams(level="info", data=words)
        said = LoggingMessageNotification(params=params)
        await context.session.send_notification(said, context.request_id)
    return "done"


def test_simple_prompt() -> str:
    return "This is a simple prompt for testing."


def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1={arg1!r}, arg2={arg2!r}"


def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803
    embedded = resource(resourceUri, "Embedded resource content for testing.")
    return [UserMessage(embedded), UserMessage("Please process the embedded resource above.")]


def test_prompt_with_image() -> list[UserMessage]:
    return [UserMessage(image()), UserMessage("Please analyze the image above.")]


@contextmanager
def served(app: Starlette) -> Iterator[str]:
    """An application on a port of its own, in a thread; its address."""
    server, listener = HttpServer(app), listen("127.0.0.1", 0)
    thread = Thread(target=lambda: asyncio.run(server.serve([listener])))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def app_of(server: ButlerMCP) -> Starlette:
    """The server on the product's own route, with its guard, without sign-in."""
    route = _mcp_route("general", server, _guard(["127.0.0.1", "localhost"]))
    return Starlette(routes=[route], lifespan=_lifespan([server], None))


def signed_in(daemon: Daemon, token: str) -> Starlette:
    """Everything handed on to a daemon with a token, which the suite has no way to send."""

    async def hand_on(request: Request) -> Response:
        headers = {k: v for k, v in request.headers.items() if k != "content-length"}
        headers["authorization"] = f"Bearer {token}"
        answer = await request.app.state.http.request(
            request.method, daemon.mcp(), content=await request.body(), headers=headers
        )
        kept = {k: v for k, v in answer.headers.items() if k in ("content-type", "mcp-session-id")}
        return Response(answer.content, answer.status_code, kept)

    @asynccontextmanager
    async def client(app: Starlette) -> AsyncIterator[None]:
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as app.state.http:
            yield

    path = "/butlers/general/mcp"
    return Starlette(routes=[Route(path, hand_on, methods=["POST"])], lifespan=client)
