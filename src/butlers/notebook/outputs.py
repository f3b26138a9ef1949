"""The outputs of the notebook's operations; clients see their schemas."""

from dataclasses import asdict
from typing import Any, Self

from butlers.notebook.model import AgentMemory, SearchResult, from_text
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
    """Whether a summary replaced it; archived notes are neither listed nor found."""
    created_at: str
    updated_at: str

    @classmethod
    def of(cls, memory: AgentMemory, agent: str) -> Self:
        """Present a note to its agent: with the agent's own name and times in ISO 8601."""
        known = {**asdict(memory), "agent_id": agent}
        times = {name: _instant(known[name]) for name in ("created_at", "updated_at")}
        return cls.model_validate(known | times)


class CategorizedNote(Note):
    """A note and its category."""

    category: str | None
    category_confidence: float | None
    """Confidence of the category, 0 to 1."""


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
    """The share of their words that both contain, 0 to 1."""


class FoundNotes(Output):
    """Search results, best first."""

    memories: list[FoundNote]
    mode: str
    """The requested mode."""
    total_candidates: int
    """How many notes were candidates."""

    @classmethod
    def of(cls, result: SearchResult, agent: str) -> Self:
        """Present results to the agent."""
        notes = [
            FoundNote(memory=Note.of(hit.memory, agent), score=hit.score, source=hit.source)
            for hit in result.memories
        ]
        return cls(memories=notes, mode=result.mode, total_candidates=result.total_candidates)


class Summarized(Output):
    """The result of summarizing."""

    agents: int
    archived: int
    """How many notes were replaced by a summary."""
    errors: list[str]


class NoteStats(Output):
    """Counts of an agent's notes, and of the whole file."""

    notes: int
    archived: int
    categories: dict[str, int]
    last_change: str | None
    file: dict[str, Any]


def _instant(text: str) -> str:
    """Convert a stored time to ISO 8601; leave other text as it is."""
    moment = from_text(text)
    return text if moment is None else moment.isoformat()
