"""Store the sessions that hooks left in the spool, and those that no hook reported."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

import structlog

from butlers.auth.rights import Caller, Project
from butlers.auth.token_store import TokenStore
from butlers.clock import Clock, utc_now
from butlers.db.lease import beside
from butlers.errors import Unavailable
from butlers.host.butler import Butler
from butlers.host.home import Home
from butlers.host.hook_notes import record_notes
from butlers.sessions import spool
from butlers.sessions.catch_up import ConnectionFile, overlooked
from butlers.sessions.fail_open import forgiven
from butlers.sessions.log import SessionOutcome
from butlers.sessions.pauses import sweep_marks
from butlers.sessions.privacy import is_left_out
from butlers.sessions.private_turns import entry_lines
from butlers.sessions.project_section import SectionFile, refresh
from butlers.sessions.prompts import parse_record
from butlers.sessions.session import SessionMemory, place_name
from butlers.sessions.spool_entries import RECENT_DAYS, Arrival, SpoolEntries, chunks, notes_since
from butlers.sessions.transcripts import find_pasted
from butlers.settings.sections import SessionsSection

log = structlog.get_logger(__name__)

_LOOK_SECONDS, _LOOK_AGAIN_SECONDS = 0.25, 5.0
IDLE_MINUTES = 30
"""A session without an end counts as ended so long after its last answer."""
_CATCH_UP_SECONDS = 3_600.0
MOST_TRIES = 5
_NOTING_SECONDS = 5.0
_OUTAGE_SECONDS = 15.0
# How long to wait after the first, second … failed try.
_PAUSES_SECONDS = (5.0, 30.0, 120.0, 600.0)


class _Unstorable(Exception):
    """No further try would store this session; the message says why."""


class SpoolWorker:
    """Stores one spooled session after the other, each once."""

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
        self._spool = SpoolEntries(home.root)
        self._memories: dict[str, SessionMemory] = {}
        self._read_sizes = self._spool.read_before()
        self._not_before: dict[str, float] = {}
        self._trouble = ""
        self._last_look = (0, 0.0)
        self._notes_changed_at = 0

    def kept(self) -> AbstractAsyncContextManager[object]:
        """Within this block spooled sessions are stored."""
        return beside(self._run())

    async def _run(self) -> None:
        catch_up_at = 0.0
        while True:
            try:
                if self._is_worth_a_look():
                    await self.drain()
                await self.record_notes()
                if time.monotonic() >= catch_up_at:
                    catch_up_at = time.monotonic() + _CATCH_UP_SECONDS
                    await self.catch_up()
            except Exception as error:  # noqa: BLE001  later sessions are still stored
                self._log_once(_reason(error))
                await asyncio.sleep(_OUTAGE_SECONDS)
            await asyncio.sleep(_LOOK_SECONDS)

    def _is_worth_a_look(self) -> bool:
        """Whether the spool changed, or was not read for a while."""
        last_change, looked_at = self._last_look
        changed_at, now = self._spool.changed_at, time.monotonic()
        if changed_at == last_change and now < looked_at + _LOOK_AGAIN_SECONDS:
            return False
        self._last_look = (changed_at, now)
        return changed_at != 0

    async def record_notes(self) -> None:
        """Record the starts and prompts that went without memory since this was last called."""
        file = self._home.root / spool.WITHOUT_MEMORY
        changed_at = file.stat().st_mtime_ns if file.exists() else 0
        if changed_at == self._notes_changed_at:
            return
        since = self._clock() - timedelta(days=RECENT_DAYS)
        notes = await asyncio.to_thread(notes_since, file, since)
        for name, butler in self._butlers.items():
            own = [note for note in notes if note.get("butler") == name]
            with suppress(Unavailable):  # without a token nobody knows whose they are
                await record_notes(butler, self._caller(name), own)
        self._notes_changed_at = changed_at

    async def catch_up(self) -> None:
        """Spool the sessions that connected agents wrote and no hook reported."""
        await asyncio.to_thread(self._catch_up, self._clock().timestamp())

    def _catch_up(self, now: float) -> None:
        self._spool.sweep(now)
        home = str(self._home.root)
        sweep_marks(home, now)
        spool.make_reserve(home)
        if not self._settings.catch_up:
            return
        # Sessions set aside wait for a person to decide.
        known = {entry.key for entry in (*self._spool.arrivals(), *self._spool.set_aside_before())}
        connections = ConnectionFile(self._home.connections_file).all()
        for session in overlooked(connections, self._read_sizes, now - self._idle_seconds):
            key = f"{session['butler']}~{session['session']}"
            if key not in known and self._spool.has_room and not is_left_out(home, session):
                known.add(key)
                self._spool.leave(session)

    async def drain(self) -> None:
        """Store the sessions that are due; one that fails stays spooled, and the others go on."""
        now, stored = self._clock().timestamp(), 0
        for arrival in await asyncio.to_thread(self._spool.arrivals):
            begun = None
            with suppress(FileNotFoundError):  # its session has just ended, or goes on
                if self._may_be_tried(arrival) and arrival.is_due(now, self._idle_seconds):
                    begun = self._spool.begin(arrival)
            if begun is not None:
                stored += await self._try_to_store(begun)
        if stored:
            await asyncio.to_thread(self._spool.remember_read, dict(self._read_sizes))

    def _may_be_tried(self, arrival: Arrival) -> bool:
        times = (self._not_before.get(name, 0.0) for name in (arrival.butler, arrival.key))
        return time.monotonic() >= max(times)

    async def _try_to_store(self, arrival: Arrival) -> bool:
        """Store a session and remove its entry; return whether that worked."""
        try:
            await self._store(arrival)
        except Unavailable as error:
            # Not the session's fault, so this try does not count.
            self._spool.put_back(arrival)
            self._not_before[arrival.butler] = time.monotonic() + _OUTAGE_SECONDS
            self._log_once(str(error))
            return False
        except _Unstorable as error:
            self._set_aside(arrival, str(error))
            return False
        except asyncio.CancelledError:
            self._spool.put_back(arrival)
            raise
        except Exception as error:  # noqa: BLE001  the others are still stored
            self._failed(arrival, error)
            return False
        self._trouble = ""
        self._not_before.pop(arrival.key, None)
        self._spool.done(arrival)
        return True

    async def _store(self, arrival: Arrival) -> None:
        memory, caller = self._memory(arrival.butler), self._caller_of(arrival)
        transcript = arrival.transcript
        if not arrival.told:
            raise _Unstorable("its entry is damaged")
        if transcript is None:
            if arrival.told.get("held"):
                raise _Unstorable("its transcript is gone")
            return  # it never had one
        size = transcript.stat().st_size
        project = place_name(str(arrival.told.get("cwd", "")), caller)
        entry = {**arrival.told, "session": arrival.session}
        reading = chunks(entry_lines(str(self._home.root), entry, str(transcript)))
        pasted = await asyncio.to_thread(
            find_pasted, Path(str(arrival.told.get("path", ""))), arrival.session
        )
        was_uncut = self._read_sizes.get(arrival.key, 0) < 0
        stored, has_public, is_readable = list[UUID](), False, False
        while (chunk := await asyncio.to_thread(next, reading, None)) is not None:
            about, lines = {"project": project}, chunk.split("\n")
            is_readable = is_readable or not chunk.strip() or any(map(parse_record, lines))
            if was_uncut:
                await memory.remember_pieces(arrival.session, chunk, about, caller)
            episode = await memory.remember_transcript(
                arrival.session, chunk, about, caller, pasted
            )
            stored, has_public = stored + ([episode] if episode else []), True
        if has_public and not is_readable:
            raise _Unstorable("no line of its transcript can be read")
        self._read_sizes.pop(arrival.key, None)  # so that the newest is last
        self._read_sizes[arrival.key] = size
        if not has_public and (size or arrival.told.get("text")):
            await self._leave_no_record(arrival, caller)
            return
        noted = partial(
            self._butlers[arrival.butler].session_log.note_agent,
            caller,
            arrival.session,
            project=project,
            stored=stored,
            outcome=SessionOutcome.OK,
        )
        await forgiven("record of a session", noted, otherwise=None, seconds=_NOTING_SECONDS)
        await self._write_sections(arrival.butler, caller)

    async def _write_sections(self, butler: str, caller: Caller) -> None:
        """Write what instruction files hold of the session's project anew."""
        sections = SectionFile(self._home.sections_file)

        async def write() -> None:
            context = self._butlers[butler].module("memory").operation_context(caller)
            await refresh(sections, butler, context)

        if caller.project is not None and sections.all():
            await forgiven("section of a project", write, otherwise=None, seconds=_NOTING_SECONDS)

    def _caller_of(self, arrival: Arrival) -> Caller:
        """Return on whose behalf a session is stored: the hooks' caller, in its project."""
        of_hooks = self._caller(arrival.butler)
        return replace(
            of_hooks,
            project=Project.of(arrival.told.get("project")),
            low_trust=of_hooks.low_trust or bool(arrival.told.get("low_trust")),
        )

    async def _leave_no_record(self, arrival: Arrival, caller: Caller) -> None:
        """Erase what log and ledger have of a session of which nothing may be stored."""
        self._spool.forget_begun(arrival.session)

        async def erase() -> int:
            log = self._butlers[arrival.butler].session_log
            return await log.erase(caller.tenant_id, [arrival.session])

        await forgiven("record of a session", erase, otherwise=0, seconds=_NOTING_SECONDS)

    def _memory(self, name: str) -> SessionMemory:
        if name not in self._butlers:
            if name not in self._home.butler_names():
                raise _Unstorable(f"there is no butler {name} in this home")
            raise Unavailable(f"butler {name} is not running")
        if name not in self._memories:
            self._memories[name] = self._butlers[name].session_memory()
        return self._memories[name]

    def _caller(self, butler: str) -> Caller:
        """Return the caller that the token of the butler's hooks stands for, as over HTTP."""
        file = self._home.hook_token_file(butler)
        with suppress(FileNotFoundError):
            record = self._tokens.verify(file.read_text("utf-8").strip(), butler)
            if record is not None:
                return record.caller
        raise Unavailable(f"the hooks of {butler} have no valid token; run `butlers connect`")

    def _failed(self, arrival: Arrival, error: Exception) -> None:
        # Only the type: the message may quote the session.
        reason = type(error).__name__
        log.warning("a session was not stored", butler=arrival.butler, session=arrival.session,
                    tries=arrival.tries, reason=reason, exc_info=error)  # fmt: skip
        if arrival.tries >= MOST_TRIES:
            self._set_aside(arrival, f"{arrival.tries} tries failed, the last with {reason}")
        else:
            self._not_before[arrival.key] = time.monotonic() + _PAUSES_SECONDS[arrival.tries - 1]

    def _set_aside(self, arrival: Arrival, why: str) -> None:
        self._spool.set_aside(arrival, why)
        fields = {"butler": arrival.butler, "session": arrival.session, "why": why}
        log.error("a session was set aside", **fields)

    def _log_once(self, reason: str) -> None:
        """Log why nothing is stored, unless that was logged already."""
        if reason != self._trouble:
            self._trouble = reason
            log.warning("sessions wait", reason=reason)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'the spool'}: {error.strerror or error}"
    return f"{type(error).__name__}: {error}"
