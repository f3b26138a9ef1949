"""What the notebook's tools answer; their schemas tell a client what to expect."""

from dataclasses import asdict
from typing import Any, Self

from butlers.notebook.decay import from_text
from butlers.notebook.model import AgentMemory, SearchResult
from butlers.operation import Output


class Note(Output):
    """A note."""

    id: str
    agent_id: str
    """The agent whose note it is: you."""
    key: str
    content: str
    txid: str | None
    status: str
    archived: bool
    """Whether a summary has taken its place; it is not listed or found any more."""
    created_at: str
    updated_at: str

    @classmethod
    def of(cls, memory: AgentMemory, agent: str) -> Self:
        """The note as its agent is shown it: by the agent's own name, with times in ISO 8601."""
        known = {**asdict(memory), "agent_id": agent}
        times = {name: _instant(known[name]) for name in ("created_at", "updated_at")}
        return cls.model_validate(known | times)


class CategorizedNote(Note):
    """A note and its category."""

    category: str | None
    category_confidence: float | None
    """How sure the category is, 0 to 1."""


class FoundNote(Output):
    """A note that a search found."""

    memory: Note
    score: float
    source: str
    """What the score comes from: fts5, combined (with TF-IDF) or llm."""


class RelatedNote(Output):
    """A note that shares words with another one."""

    memory: Note
    score: float
    """The share of all their words that both hold, 0 to 1."""


class FoundNotes(Output):
    """What a search found, best first."""

    memories: list[FoundNote]
    mode: str
    """The mode that was asked for."""
    total_candidates: int
    """Among how many notes the best were chosen."""

    @classmethod
    def of(cls, result: SearchResult, agent: str) -> Self:
        """The result as the agent is shown it."""
        found = [
            FoundNote(memory=Note.of(one.memory, agent), score=one.score, source=one.source)
            for one in result.memories
        ]
        return cls(memories=found, mode=result.mode, total_candidates=result.total_candidates)


class Summarized(Output):
    """What came of summarizing."""

    agents: int
    archived: int
    """How many notes a summary has taken the place of."""
    errors: list[str]


class NoteStats(Output):
    """How much an agent has, and the whole file."""

    notes: int
    archived: int
    categories: dict[str, int]
    last_change: str | None
    file: dict[str, Any]


def _instant(text: str) -> str:
    """What a table holds as an instant; a text that is none is shown as it is."""
    moment = from_text(text)
    return text if moment is None else moment.isoformat()
