"""Sessions that arrive: the daemon stores what hooks left in the spool, and what none told of."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from functools import partial

import structlog

from butlers.auth.rights import Caller, Project
from butlers.auth.token_store import TokenStore
from butlers.clock import Clock, utc_now
from butlers.db.lease import beside
from butlers.errors import Unavailable
from butlers.host.butler import Butler
from butlers.host.home import Home
from butlers.sessions.catch_up import ConnectionFile, overlooked
from butlers.sessions.fail_open import forgiven
from butlers.sessions.log import SessionOutcome
from butlers.sessions.session import SessionMemory, place_name
from butlers.sessions.spool_entries import Arrival, SpoolEntries, pieces
from butlers.settings.sections import SessionsSection

log = structlog.get_logger(__name__)

_LOOK_SECONDS, _LOOK_AGAIN_SECONDS = 0.25, 5.0
IDLE_MINUTES = 30
"""How long after its last answer a session that never ended counts as ended."""
_CATCH_UP_SECONDS = 3_600.0
MOST_TRIES = 5
_NOTING_SECONDS = 5.0
_OUTAGE_SECONDS = 15.0
# After the first, second … try that failed.
_PAUSES_SECONDS = (5.0, 30.0, 120.0, 600.0)


class _Misplaced(Exception):
    """A session that no further try would store; the words say why."""


class SpoolWorker:
    """Takes one session after the other from the spool, once each however often it was left."""

    def __init__(
        self,
        home: Home,
        butlers: Mapping[str, Butler],
        tokens: TokenStore,
        settings: SessionsSection,
        clock: Clock = utc_now,
        idle_minutes: float = IDLE_MINUTES,
    ) -> None:
        self._home, self._butlers, self._tokens = home, butlers, tokens
        self._settings, self._clock = settings, clock
        self._idle_seconds = idle_minutes * 60
        self._waiting = SpoolEntries(home.root)
        self._memories: dict[str, SessionMemory] = {}
        self._read = self._waiting.read_before()
        self._later: dict[str, float] = {}
        self._trouble = ""
        self._seen = (0, 0.0)

    def kept(self) -> AbstractAsyncContextManager[object]:
        """Within this block whatever arrives is stored."""
        return beside(self._keep())

    async def _keep(self) -> None:
        catch_up_at = 0.0
        while True:
            try:
                if self._is_worth_a_look():
                    await self.drain()
                if time.monotonic() >= catch_up_at:
                    catch_up_at = time.monotonic() + _CATCH_UP_SECONDS
                    await self.catch_up()
            except Exception as error:  # noqa: BLE001  what arrives later is stored all the same
                self._complain(_reason(error))
                await asyncio.sleep(_OUTAGE_SECONDS)
            await asyncio.sleep(_LOOK_SECONDS)

    def _is_worth_a_look(self) -> bool:
        """Whether the spool changed, or was not looked at for a while."""
        changed_at, looked_at = self._seen
        moment, now = self._waiting.changed_at, time.monotonic()
        if moment == changed_at and now < looked_at + _LOOK_AGAIN_SECONDS:
            return False
        self._seen = (moment, now)
        return moment != 0

    async def catch_up(self) -> None:
        """Put into the spool what connected agents wrote and nobody told of."""
        await asyncio.to_thread(self._catch_up, self._clock().timestamp())

    def _catch_up(self, now: float) -> None:
        self._waiting.sweep(now)
        if not self._settings.catch_up:
            return
        # What was set aside waits for somebody to decide.
        left = [*self._waiting.arrivals(), *self._waiting.set_aside_before()]
        known = {one.key for one in left}
        connections = ConnectionFile(self._home.connections_file).all()
        idle_since = now - self._idle_seconds
        for told in overlooked(connections, self._read, idle_since):
            key = f"{told['butler']}~{told['session']}"
            if key not in known and self._waiting.has_room:
                known.add(key)
                self._waiting.leave(told)

    async def drain(self) -> None:
        """Store what is due; what fails stays for another try, and keeps nothing else."""
        now, stored = self._clock().timestamp(), 0
        for arrival in await asyncio.to_thread(self._waiting.arrivals):
            begun = None
            with suppress(FileNotFoundError):  # its session has just ended, or goes on
                if self._may_be_tried(arrival) and arrival.is_due(now, self._idle_seconds):
                    begun = self._waiting.begin(arrival)
            if begun is not None:
                stored += await self._settled(begun)
        if stored:
            await asyncio.to_thread(self._waiting.remember_read, dict(self._read))

    def _may_be_tried(self, arrival: Arrival) -> bool:
        moment = time.monotonic()
        times = (self._later.get(name, 0.0) for name in (arrival.butler, arrival.key))
        return moment >= max(times)

    async def _settled(self, arrival: Arrival) -> bool:
        """Whether the session of an entry is stored now, and the entry gone."""
        try:
            await self._store(arrival)
        except Unavailable as error:
            # Not the session's fault: it is as if nobody had tried.
            self._waiting.put_back(arrival)
            self._later[arrival.butler] = time.monotonic() + _OUTAGE_SECONDS
            self._complain(str(error))
            return False
        except _Misplaced as error:
            self._set_aside(arrival, str(error))
            return False
        except asyncio.CancelledError:
            self._waiting.put_back(arrival)
            raise
        except Exception as error:  # noqa: BLE001  one session that fails keeps no other
            self._failed(arrival, error)
            return False
        self._trouble = ""
        self._later.pop(arrival.key, None)
        self._waiting.done(arrival)
        return True

    async def _store(self, arrival: Arrival) -> None:
        memory = self._memory(arrival.butler)
        of_hooks = self._caller(arrival.butler)
        caller = replace(
            of_hooks,
            project=Project.of(arrival.told.get("project")),
            low_trust=of_hooks.low_trust or bool(arrival.told.get("low_trust")),
        )
        transcript = arrival.transcript
        if transcript is None:
            _must_have_left_nothing(arrival)
            return
        size = transcript.stat().st_size
        project = place_name(str(arrival.told.get("cwd", "")), caller)
        reading = pieces(transcript)
        stored = []
        while (piece := await asyncio.to_thread(_next, reading)) is not None:
            stored.append(
                await memory.remember_transcript(
                    arrival.session, piece, {"project": project}, caller
                )
            )
        sessions = self._butlers[arrival.butler].session_log
        noted = partial(
            sessions.note_agent,
            caller,
            arrival.session,
            project=project,
            stored=[episode for episode in stored if episode],
            outcome=SessionOutcome.OK,
        )
        await forgiven("record of a session", noted, otherwise=None, seconds=_NOTING_SECONDS)
        self._read.pop(arrival.key, None)  # the newest stand last
        self._read[arrival.key] = size

    def _memory(self, name: str) -> SessionMemory:
        if name not in self._butlers:
            if name not in self._home.butler_names():
                raise _Misplaced(f"there is no butler {name} in this home")
            raise Unavailable(f"butler {name} is not up")
        if name not in self._memories:
            self._memories[name] = self._butlers[name].session_memory()
        return self._memories[name]

    def _caller(self, butler: str) -> Caller:
        """Whoever the hooks of a butler speak for; their token says so, as over HTTP."""
        file = self._home.hook_token_file(butler)
        with suppress(FileNotFoundError):
            record = self._tokens.verify(file.read_text("utf-8").strip(), butler)
            if record is not None:
                return record.caller
        raise Unavailable(f"no valid token for the hooks of {butler}; `butlers connect` makes one")

    def _failed(self, arrival: Arrival, error: Exception) -> None:
        # Other messages quote what a session said.
        reason = type(error).__name__
        log.warning("a session was not stored", butler=arrival.butler, session=arrival.session,
                    tries=arrival.tries, reason=reason, exc_info=error)  # fmt: skip
        if arrival.tries >= MOST_TRIES:
            self._set_aside(arrival, f"{arrival.tries} tries failed, the last with {reason}")
        else:
            pause = _PAUSES_SECONDS[arrival.tries - 1]
            self._later[arrival.key] = time.monotonic() + pause

    def _set_aside(self, arrival: Arrival, why: str) -> None:
        self._waiting.set_aside(arrival, why)
        log.error(
            "a session was set aside", butler=arrival.butler, session=arrival.session, why=why
        )

    def _complain(self, reason: str) -> None:
        """Say why nothing is stored, once."""
        if reason != self._trouble:
            self._trouble = reason
            log.warning("sessions wait", reason=reason)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'the spool'}: {error.strerror or error}"
    return f"{type(error).__name__}: {error}"


def _must_have_left_nothing(arrival: Arrival) -> None:
    """Refuse a session without a transcript, unless it never had one."""
    if not arrival.told:
        raise _Misplaced("its entry is damaged")
    if arrival.told.get("held"):
        raise _Misplaced("its transcript is gone")


def _next(reading: Iterator[str]) -> str | None:
    return next(reading, None)
