"""Sessions of a butler's own: its instructions and memories go in, an episode comes out."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from butlers.db.postgres import Database
from butlers.errors import Unavailable
from butlers.ids import NewId, new_id
from butlers.jobs.spending import Outcome, Spending, model_of
from butlers.kernel.secrets import masked
from butlers.kernel.sections import Limits
from butlers.kernel.text import one_line
from butlers.llm import Completion, LanguageModel, Usage
from butlers.module import Caller, Project
from butlers.sessions.fail_open import forgiven
from butlers.sessions.projects import PERSONAL
from butlers.sessions.session import SessionMemory
from butlers.settings.sections import ButlerSettings

INSTRUCTIONS_FILE = "CLAUDE.md"
_EXCERPT = 1_000
_ACCOUNT_SECONDS = 2.0
_UNCOUNTED = 0


@dataclass(frozen=True, slots=True)
class Session:
    """A session that was answered, before it is remembered."""

    id: UUID
    prompt: str
    context: str
    completion: Completion


class Spawner:
    """Runs the sessions of one butler."""

    def __init__(
        self,
        settings: ButlerSettings,
        directory: Path,
        memory: SessionMemory,
        model: LanguageModel | None,
        new_id: NewId = new_id,
    ) -> None:
        self._settings = settings
        self._instructions_file = directory / INSTRUCTIONS_FILE
        self._memory = memory
        self._model = model
        self._new_id = new_id

    @property
    def caller(self) -> Caller:
        """Who a session of the butler's own acts as."""
        project = Project((PERSONAL,), PERSONAL)
        name = self._settings.butler.name
        return Caller(self._settings.butler.tenant, f"session:{name}", project=project)

    async def ask(self, prompt: str, label: str = "ask") -> Session:
        """An answered session; whatever its memory does, only the model can make it fail."""
        model = self._required_model()
        instructions = await asyncio.to_thread(self._instructions)
        context = await self._memory.context(prompt, self.caller)
        completion = await model.complete(
            prompt,
            system="\n\n".join(filter(None, (instructions, context))),
            timeout_seconds=self._settings.runtime.timeout_seconds,
            label=label,
        )
        return Session(self._new_id(), prompt, context, completion)

    async def remember(self, session: Session) -> UUID | None:
        """Store what happened in a session; the episode, or None where that was not possible."""
        answer = session.completion.text
        return await self._memory.remember_exchange(
            session.id, session.prompt, answer, session.context, self.caller
        )

    async def run_prompt(self, task: str, prompt: str) -> dict[str, Any]:
        """Run a scheduled prompt to its end; what the history keeps of it."""
        session = await self.ask(prompt, f"schedule:{task}")
        episode = await self.remember(session)
        answer = one_line(masked(session.completion.text).text)
        return {
            "session_id": str(session.id),
            "episode_id": str(episode) if episode else None,
            "answer": answer if len(answer) <= _EXCERPT else f"{answer[: _EXCERPT - 1]}…",
        }

    def _required_model(self) -> LanguageModel:
        if self._model is None:
            name = self._settings.butler.name
            raise Unavailable(
                f"butler {name} has nothing to run a session with: set runtime.kind in its "
                'butler.toml to "claude", "codex", "command" or "http" '
                "(docs/runtimes.md says what each needs)"
            )
        return self._model

    def _instructions(self) -> str:
        try:
            text = self._instructions_file.read_text(encoding="utf-8", errors="replace").strip()
        except FileNotFoundError:
            text = ""
        except OSError as error:
            raise Unavailable(
                f"cannot read {self._instructions_file} ({error.strerror}); mend or remove it"
            ) from error
        about = self._settings.butler.description.strip()
        name = self._settings.butler.name
        return text or f"You are {name}, a butler." + (f" {about}" if about else "")


def session_model(
    settings: ButlerSettings, database: Callable[[], Database]
) -> LanguageModel | None:
    """The model that a butler's settings choose for its sessions, or None."""
    return model_of(settings, _ForgivenSpending(database, Limits()))


class _ForgivenSpending(Spending):
    """Completions are counted where that is possible, and never held up by it.

    What limits a day's completions are the settings of consolidation, which nobody waits for.
    """

    async def reserve(self, runtime: str, label: str, seconds: float) -> int:
        """The number of a completion, or the one that none has."""
        counted = partial(super().reserve, runtime, label, seconds)
        return await forgiven(
            "count of a session", counted, otherwise=_UNCOUNTED, seconds=_ACCOUNT_SECONDS
        )

    async def settle(self, number: int, outcome: Outcome, usage: Usage) -> None:
        """Note what a completion cost that could be counted."""
        if number != _UNCOUNTED:
            settled = partial(super().settle, number, outcome, usage)
            await forgiven("cost of a session", settled, otherwise=None, seconds=_ACCOUNT_SECONDS)
