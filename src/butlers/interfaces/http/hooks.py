"""What the hooks of agents call: the context for a session, and storing one that ended.

A caller sends text, never the name of a file. Our own hook program writes ended sessions to the
spool; the address for them here is for others, who must send again after a failure.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from butlers.auth.rights import Caller, Project, Right
from butlers.auth.token_store import TokenStore
from butlers.errors import Forbidden
from butlers.hook import CONNECTING
from butlers.host.butler import Butler
from butlers.interfaces.http.request_limits import bearer
from butlers.sessions.agent_calls import read_call
from butlers.sessions.fail_open import forgiven
from butlers.sessions.injection_log import Occasion
from butlers.sessions.injections import Delivery, Injection, InjectionEvent
from butlers.sessions.pauses import read_mark, write_mark
from butlers.sessions.privacy import find_rules, is_blocked, public_prompt
from butlers.sessions.private_turns import redact
from butlers.sessions.session import STORING_SECONDS, place_name

MAX_BODY_BYTES = 4 * 1024 * 1024
HOOK_SECONDS = 1.2
"""How long building a context may take; a hook waits little longer for any answer."""

_NOTING_SECONDS = 5.0
_FAILED = "memory failed or took too long; `butlers logs` shows more"
Short = Annotated[str, StringConstraints(max_length=4_096)]
Key = Annotated[str, StringConstraints(min_length=1, max_length=4_096)]


class HookProject(BaseModel):
    """The project a hook works in, as `sessions.projects` identified it there."""

    model_config = ConfigDict(frozen=True)

    keys: Annotated[list[Key], Field(min_length=1, max_length=8)]
    name: Short = ""
    place: Short = ""


class HookEvent(BaseModel):
    """What every hook sends; anything else that an agent adds is ignored."""

    model_config = ConfigDict(frozen=True)

    session_id: Annotated[str, StringConstraints(pattern=r"^[\w-]{1,100}$")]
    cwd: Short = ""
    project: HookProject | None = None
    low_trust: bool = False


class Started(HookEvent):
    """A session starts."""

    source: Short = "startup"


class Prompted(HookEvent):
    """A user submits a prompt."""

    prompt: str
    last_answer: str = Field("", repr=False)
    """The agent's last words, with a prompt so short that it may point to them."""


class Ended(HookEvent):
    """A session ended, with its transcript."""

    reason: Short = ""
    transcript: str = Field(repr=False)


class Called(HookEvent):
    """An agent is about to call a tool, or has called one."""

    tool_input: dict[str, Any] = Field(default_factory=dict, repr=False)
    error: str = Field("", repr=False)
    refresh: bool = False
    """Whether the hook wants the digest of what is known about commands, files and errors."""


HookReply: TypeAlias = tuple[dict[str, Any], Callable[[], Awaitable[None]] | None]
"""The response to a hook, and what to do after it was sent."""
Kind = TypeVar("Kind", bound=HookEvent)


def hook_routes(butlers: Mapping[str, Butler], tokens: TokenStore) -> list[Route]:
    """Build the routes of each butler: one for each event of an agent."""
    return [route for butler in butlers.values() for route in Hooks(butler, tokens).routes()]


class Hooks:
    """Answers the hooks of one butler."""

    def __init__(self, butler: Butler, tokens: TokenStore) -> None:
        self._butler, self._tokens = butler, tokens
        self._memory = butler.session_memory(HOOK_SECONDS)
        self._tools = butler.tool_memory(HOOK_SECONDS)

    def routes(self) -> list[Route]:
        """Build the routes."""
        endpoints = {
            "SessionStart": self._endpoint(Started, self._started),
            "UserPromptSubmit": self._endpoint(Prompted, self._prompted),
            "SessionEnd": self._endpoint(Ended, self._ended),
            "PreToolUse": self._endpoint(Called, self._calling),
            "PostToolUse": self._endpoint(Called, partial(self._called, failed=False)),
            "PostToolUseFailure": self._endpoint(Called, partial(self._called, failed=True)),
        }
        path = f"/butlers/{self._butler.name}/hooks"
        return [Route(f"{path}/{name}", each, methods=["POST"]) for name, each in endpoints.items()]

    async def _started(self, event: Started, caller: Caller) -> HookReply | None:
        """Return the context for a session that starts."""
        began = time.monotonic()
        context = await self._memory.opening(event.session_id, caller)
        if context is None:
            return None
        occasion = Occasion(event.session_id, place_name(event.cwd, caller), InjectionEvent.START)
        note = self._note(caller, occasion, context, began)
        return {"context": context.text}, None if event.source == CONNECTING else note

    async def _prompted(self, event: Prompted, caller: Caller) -> HookReply:
        """Return the context for a prompt."""
        began = time.monotonic()
        context = await self._memory.relevant(
            event.session_id, event.prompt, caller, event.last_answer
        )
        reason = _FAILED if context.outcome is Delivery.FAILED else None
        project, kind = place_name(event.cwd, caller), InjectionEvent.PROMPT
        occasion = Occasion(event.session_id, project, kind, event.prompt, reason)
        return {"context": context.text}, self._note(caller, occasion, context, began)

    async def _calling(self, event: Called, caller: Caller) -> HookReply:
        """Return what is known about a command or file before an agent uses it."""
        call, began = read_call(event.model_dump()), time.monotonic()
        context = await self._tools.before_call(event.session_id, call, caller)
        return await self._call_reply(event, call.command, caller, context, began)

    async def _called(self, event: Called, caller: Caller, *, failed: bool) -> HookReply:
        """Return what fixed the error of a call before."""
        call, began = read_call(event.model_dump()), time.monotonic()
        context = await self._tools.after_call(event.session_id, call, caller, failed=failed)
        return await self._call_reply(event, call.command, caller, context, began)

    async def _call_reply(
        self, event: Called, command: str, caller: Caller, context: Injection, began: float
    ) -> HookReply:
        body = {"context": context.text}
        if event.refresh:
            body["digest"] = await self._tools.digest(caller)
        if not context.ids:
            return body, None
        project, kind = place_name(event.cwd, caller), InjectionEvent.TOOL
        occasion = Occasion(event.session_id, project, kind, command)
        return body, self._note(caller, occasion, context, began)

    async def _ended(self, event: Ended, caller: Caller) -> HookReply | None:
        """Store the transcript of a session that ended."""

        async def store() -> HookReply:
            project = {"project": place_name(event.cwd, caller)}
            episode = await self._memory.remember_transcript(
                event.session_id, event.transcript, project, caller
            )
            return {"episode_id": str(episode) if episode else None}, None

        return await forgiven("end of a session", store, otherwise=None, seconds=STORING_SECONDS)

    def _note(
        self, caller: Caller, occasion: Occasion, injection: Injection, began: float
    ) -> Callable[[], Awaitable[None]]:
        """Record what a session was given; its agent does not wait for that."""
        milliseconds = round((time.monotonic() - began) * 1_000)

        async def note() -> None:
            project, asked, told = occasion.project, occasion.asked, injection.ids
            session, log = occasion.session_id, self._butler.session_log
            await log.note_agent(caller, session, project=project, asked=asked, told=told)
            await self._butler.injections.record(caller, occasion, injection, milliseconds)

        what, seconds = "record of a session", _NOTING_SECONDS
        return partial(forgiven, what, note, otherwise=None, seconds=seconds)

    def _endpoint(
        self, kind: type[Kind], answer: Callable[[Kind, Caller], Awaitable[HookReply | None]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            try:
                event, caller = await self._read(request, kind)
            except HTTPException as error:
                return JSONResponse({"error": error.detail}, error.status_code)
            public = await asyncio.to_thread(public_event, str(self._butler.home.root), event)
            if public is None:
                return JSONResponse({"context": "", "episode_id": None})
            event = public
            async with self._butler.limiter.of(caller.tenant_id, kind is not Ended):
                reply = await answer(event, caller)
            if reply is None:
                return JSONResponse({"error": _FAILED}, 503)
            body, afterwards = reply
            return JSONResponse(body, background=afterwards and BackgroundTask(afterwards))

        return respond

    async def _read(self, request: Request, kind: type[Kind]) -> tuple[Kind, Caller]:
        """Read the event and its caller; HTTPException says what is wrong with either."""
        record = self._tokens.verify(bearer(request.headers), self._butler.name)
        if record is None:
            raise HTTPException(401, "a token of this butler is needed; run `butlers connect`")
        try:
            record.caller.require(Right.HOOK)
            event = kind.model_validate_json(await _body(request))
        except Forbidden as error:
            raise HTTPException(403, str(error)) from error
        except ValidationError as error:
            raise HTTPException(400, "this is not what an agent's hook sends") from error
        project = Project.of(event.project.model_dump()) if event.project else None
        low_trust = record.low_trust or event.low_trust
        return event, replace(record.caller, project=project, low_trust=low_trust)


def public_event(home: str, event: Kind) -> Kind | None:
    """Return an event without what is private in it; None if all of it is."""
    project = event.project.model_dump() if event.project else None
    if is_blocked(home, event.cwd, project):
        return None
    rules = find_rules(home, event.session_id, event.cwd, project)
    mark = read_mark(home, event.session_id)
    if isinstance(event, Prompted):
        prompt, new = public_prompt(mark, rules, event.prompt)
        if new["words"] != bool(mark.get("words")):
            write_mark(home, event.session_id, {**mark, "words": new["words"]})
        return event.model_copy(update={"prompt": prompt}) if prompt or not event.prompt else None
    if isinstance(event, Ended):
        lines = event.transcript.split("\n")
        return event.model_copy(update={"transcript": "\n".join(redact(lambda: lines, rules))})
    return None if mark.get("turn") and not isinstance(event, Started) else event


async def _body(request: Request) -> bytes:
    """Read the whole body; 413 as soon as it is too long."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise HTTPException(413, f"send at most {MAX_BODY_BYTES} bytes")
    return bytes(body)
