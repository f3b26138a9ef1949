"""Deep search with a language model: the prompt, and reading its answer."""

import html
import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, OnErrorOmit

from butlers.errors import Unavailable
from butlers.kernel.json_values import closed_object
from butlers.kernel.text import one_line
from butlers.kernel.word_tables import load_tables
from butlers.llm import LanguageModel
from butlers.notebook.categories import categorize
from butlers.notebook.model import (
    AgentMemory,
    DeepSearchFn,
    MemoryCategory,
    ScoredMemory,
    ScoreSource,
)

MAX_CANDIDATES = 50
"""How many notes one prompt shows, best of the fast search first."""

_MAX_QUERY_CHARS = 2_000
_MAX_NOTE_CHARS = 1_000
_WITHHELD = "(looks like a credential; not shown)"
_TEXTS = load_tables(__file__)


class _Ranked(BaseModel):
    """One line of the answer."""

    model_config = ConfigDict(strict=True, extra="ignore")

    note: int
    score: float = Field(ge=0, le=1, allow_inf_nan=False)


class _Answer(BaseModel):
    """A ranking; invalid lines are left out."""

    ranking: list[OnErrorOmit[_Ranked]]


def reranking_with(model: LanguageModel, timeout_seconds: float) -> DeepSearchFn:
    """Make the callback that lets a language model rank the candidates of a fast search."""

    async def rerank(
        query: str, candidates: Sequence[AgentMemory], limit: int
    ) -> list[ScoredMemory]:
        shown = candidates[:MAX_CANDIDATES]
        completion = await model.complete(
            ranking_prompt(query, shown, limit),
            system=_TEXTS["system"],
            schema=answer_schema(len(shown)),
            timeout_seconds=timeout_seconds,
            label="notebook deep search",
        )
        return read_ranking(completion.text, shown)[:limit]

    return rerank


def ranking_prompt(query: str, candidates: Sequence[AgentMemory], limit: int) -> str:
    """Write the prompt: the task, then query and notes, escaped inside tags."""
    task = _TEXTS["task"].format(limit=min(limit, len(candidates)))
    notes = (_note(number, memory) for number, memory in enumerate(candidates, 1))
    fenced = f"<query>{_escaped(query, _MAX_QUERY_CHARS)}</query>"
    return "\n".join((task, "", fenced, "<notes>", *notes, "</notes>"))


def answer_schema(candidates: int) -> dict[str, Any]:
    """The JSON schema of the answer, for runtimes that enforce one."""
    ranked = closed_object({"note": {"type": "integer"}, "score": {"type": "number"}})
    return closed_object({"ranking": {"type": "array", "items": ranked, "maxItems": candidates}})


def read_ranking(answer: str, candidates: Sequence[AgentMemory]) -> list[ScoredMemory]:
    """Read the ranked candidates, each once, best first; Unavailable without a valid ranking."""
    try:
        ranking = _Answer.model_validate(json.loads(answer)).ranking
    except (ValueError, RecursionError):
        message = "the language model gave no ranking; the next deep search asks it again"
        raise Unavailable(message) from None
    accepted: dict[int, ScoredMemory] = {}
    for ranked in ranking:
        if 1 <= ranked.note <= len(candidates):
            memory = candidates[ranked.note - 1]
            accepted.setdefault(ranked.note, ScoredMemory(memory, ranked.score, ScoreSource.LLM))
    return sorted(accepted.values(), key=lambda result: -result.score)


def _note(number: int, memory: AgentMemory) -> str:
    key = html.escape(one_line(memory.key), quote=True)
    is_secret = categorize(memory.key, memory.content).category is MemoryCategory.CREDENTIAL
    content = _WITHHELD if is_secret else _escaped(memory.content, _MAX_NOTE_CHARS)
    return f'<note number="{number}" key="{key}">{content}</note>'


def _escaped(text: str, limit: int) -> str:
    line = one_line(text[: 2 * limit])
    return html.escape(line if len(line) <= limit else line[:limit] + "…", quote=False)
