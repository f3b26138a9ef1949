"""What the hooks of agents call: the context for a session, and storing one that ended.

A caller sends text, never the name of a file. Our own hook program writes ended sessions to the
spool; the address for them here is for others, who must send again after a failure.
"""

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
from butlers.sessions.fail_open import forgiven
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


class Started(HookEvent):
    """A session starts."""

    source: Short = "startup"


class Prompted(HookEvent):
    """A user submits a prompt."""

    prompt: str


class Ended(HookEvent):
    """A session ended, with its transcript."""

    reason: Short = ""
    transcript: str = Field(repr=False)


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

    def routes(self) -> list[Route]:
        """Build the routes."""
        endpoints = {
            "SessionStart": self._endpoint(Started, self._started),
            "UserPromptSubmit": self._endpoint(Prompted, self._prompted),
            "SessionEnd": self._endpoint(Ended, self._ended),
        }
        path = f"/butlers/{self._butler.name}/hooks"
        return [Route(f"{path}/{name}", each, methods=["POST"]) for name, each in endpoints.items()]

    async def _started(self, event: Started, caller: Caller) -> HookReply | None:
        """Return the context for a session that starts."""
        # There is no prompt yet: the directory says what the session works on.
        about = place_name(event.cwd, caller)
        context = await self._memory.opening(event.session_id, about, caller)
        if context is None:
            return None
        note = self._note(event, caller, told=context.ids)
        return {"context": context.text}, None if event.source == CONNECTING else note

    async def _prompted(self, event: Prompted, caller: Caller) -> HookReply:
        """Return the context for a prompt."""
        context = await self._memory.relevant(event.session_id, event.prompt, caller)
        note = self._note(event, caller, asked=event.prompt, told=context.ids)
        return {"context": context.text}, note

    async def _ended(self, event: Ended, caller: Caller) -> HookReply | None:
        """Store the transcript of a session that ended."""

        async def store() -> HookReply:
            project = {"project": place_name(event.cwd, caller)}
            episode = await self._memory.remember_transcript(
                event.session_id, event.transcript, project, caller
            )
            return {"episode_id": str(episode) if episode else None}, None

        return await forgiven("end of a session", store, otherwise=None, seconds=STORING_SECONDS)

    def _note(self, hook: HookEvent, caller: Caller, **what: Any) -> Callable[[], Awaitable[None]]:
        """Record the context of a session; its agent does not wait for that."""
        what["project"] = place_name(hook.cwd, caller)
        note = partial(self._butler.session_log.note_agent, caller, hook.session_id, **what)
        return partial(
            forgiven, "record of a session", note, otherwise=None, seconds=_NOTING_SECONDS
        )

    def _endpoint(
        self, kind: type[Kind], answer: Callable[[Kind, Caller], Awaitable[HookReply | None]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            try:
                event, caller = await self._read(request, kind)
            except HTTPException as error:
                return JSONResponse({"error": error.detail}, error.status_code)
            async with self._butler.limiter.of((caller.tenant_id, kind is not Ended)):
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
        return event, replace(record.caller, project=project)


async def _body(request: Request) -> bytes:
    """Read the whole body; 413 as soon as it is too long."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise HTTPException(413, f"send at most {MAX_BODY_BYTES} bytes")
    return bytes(body)
