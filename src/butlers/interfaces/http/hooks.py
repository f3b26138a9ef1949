"""What agents' hooks call: memories for a session that starts, an episode of one that ended.

A caller sends text and never the name of a file: the butler reads no path it is told. Our own
hook leaves what ended in the spool; the address for it is for others, who send it again when told.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from butlers.auth.rights import Caller, Project, Right
from butlers.auth.token_store import TokenStore
from butlers.errors import Forbidden
from butlers.hook import CONNECTING
from butlers.host.butler import Butler
from butlers.interfaces.http.middleware import bearer
from butlers.sessions.fail_open import forgiven
from butlers.sessions.log import SessionLog
from butlers.sessions.session import STORING_SECONDS, SessionMemory, place_name

MAX_BODY_BYTES = 4 * 1024 * 1024
HOOK_SECONDS = 1.2
"""How long an injection may take; a hook waits little longer for any answer."""

_NOTING_SECONDS = 5.0
_FAILED = "memory failed or took too long; `butlers logs` says more"
Short = Annotated[str, StringConstraints(max_length=4_096)]
Key = Annotated[str, StringConstraints(min_length=1, max_length=4_096)]


class HookProject(BaseModel):
    """The project a hook works in, as `sessions.projects` identified it there."""

    model_config = ConfigDict(frozen=True)

    keys: Annotated[list[Key], Field(min_length=1, max_length=8)]
    name: Short = ""
    place: Short = ""

    @property
    def project(self) -> Project:
        """The project."""
        return Project(tuple(self.keys), self.name, self.place)


class HookEvent(BaseModel):
    """What every hook says; what else an agent may add is passed over."""

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
    """A session ended, with what its agent wrote down."""

    reason: Short = ""
    transcript: str = Field(repr=False)


@dataclass(frozen=True, slots=True)
class HookReply:
    """What a hook is answered, and what is done once it has its answer."""

    body: dict[str, Any]
    afterwards: Callable[[], Awaitable[None]] | None = None


Kind = TypeVar("Kind", bound=HookEvent)
Answer: TypeAlias = Callable[[Request], Awaitable[Response]]


def hook_routes(butlers: Mapping[str, Butler], tokens: TokenStore) -> list[Route]:
    """One address for each event of each butler."""
    routes = []
    for name, butler in butlers.items():
        ctx = Hooks(butler.session_memory(HOOK_SECONDS), butler.session_log)
        for event, answer in (
            ("SessionStart", _answering(butler, tokens, Started, ctx.started)),
            ("UserPromptSubmit", _answering(butler, tokens, Prompted, ctx.prompted)),
            ("SessionEnd", _answering(butler, tokens, Ended, ctx.ended)),
        ):
            routes.append(Route(f"/butlers/{name}/hooks/{event}", answer, methods=["POST"]))
    return routes


class Hooks:
    """Answers the hooks of one butler."""

    def __init__(self, memory: SessionMemory, log: SessionLog) -> None:
        self._memory = memory
        self._log = log

    async def started(self, event: Started, caller: Caller) -> HookReply | None:
        """Return the context for a session that starts."""
        # Nothing was asked yet: what is worked on is known by where.
        about = place_name(event.cwd, caller)
        found = await self._memory.opening(event.session_id, about, caller)
        if found is None:
            return None
        noting = self._noting(event, caller, told=found.ids)
        return HookReply({"context": found.text}, None if event.source == CONNECTING else noting)

    async def prompted(self, event: Prompted, caller: Caller) -> HookReply:
        """Return the context for a prompt."""
        found = await self._memory.relevant(event.session_id, event.prompt, caller)
        noting = self._noting(event, caller, asked=event.prompt, told=found.ids)
        return HookReply({"context": found.text}, noting)

    async def ended(self, event: Ended, caller: Caller) -> HookReply | None:
        """Store the transcript of a session that ended."""

        async def stored() -> HookReply:
            place = {"project": place_name(event.cwd, caller)}
            episode = await self._memory.remember_transcript(
                event.session_id, event.transcript, place, caller
            )
            return HookReply({"episode_id": str(episode) if episode else None})

        return await forgiven("end of a session", stored, otherwise=None, seconds=STORING_SECONDS)

    def _noting(
        self, hook: HookEvent, caller: Caller, **what: Any
    ) -> Callable[[], Awaitable[None]]:
        """Puts on record what a session is told, for which its agent does not wait."""
        place = place_name(hook.cwd, caller)
        noted = partial(self._log.note_agent, caller, hook.session_id, project=place, **what)
        return partial(
            forgiven, "record of a session", noted, otherwise=None, seconds=_NOTING_SECONDS
        )


def _answering(
    butler: Butler,
    tokens: TokenStore,
    kind: type[Kind],
    answer: Callable[[Kind, Caller], Awaitable[HookReply | None]],
) -> Answer:
    async def respond(request: Request) -> Response:
        try:
            caller = _caller(request, tokens, butler.name)
        except Forbidden as error:
            return _refused(403, str(error))
        if caller is None:
            return _refused(401, "a token of this butler is needed; `butlers connect` makes one")
        body = await _body(request)
        if body is None:
            return _refused(413, f"at most {MAX_BODY_BYTES} bytes are taken")
        try:
            told = kind.model_validate_json(body)
        except ValidationError:
            return _refused(400, "this is not what an agent's hook sends")
        project = told.project.project if told.project else None
        async with butler.limiter.of((caller.tenant_id, kind is not Ended)):
            said = await answer(told, replace(caller, project=project))
        if said is None:
            return _refused(503, _FAILED)
        afterwards = BackgroundTask(said.afterwards) if said.afterwards else None
        return JSONResponse(said.body, background=afterwards)

    return respond


def _caller(request: Request, tokens: TokenStore, butler: str) -> Caller | None:
    record = tokens.verify(bearer(request.headers), butler)
    if record is None:
        return None
    record.caller.require(Right.HOOK)
    return record.caller


async def _body(request: Request) -> bytes | None:
    """The whole body, or None as soon as it is too long."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)


def _refused(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status_code=status)
