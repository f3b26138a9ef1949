"""The context an agent would get, taken apart: what each line costs and why it is there."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from butlers.kernel.tokens import count_tokens
from butlers.memory.flows.context import Context, build_context
from butlers.memory.flows.recall import Recalled
from butlers.memory.handle import Memory
from butlers.memory.model import Lineage, MemoryRef
from butlers.memory.policy.context import Line, Offer

Lines = list[dict[str, Any]]


async def preview_context(
    memory: Memory, prompt: str, butler: str, token_budget: int | None, lineage: Lineage
) -> dict[str, Any]:
    """The very block that `build_context` gives, with its parts; not counted as a use."""
    built = await build_context(memory, prompt, butler, token_budget, lineage, counted=False)
    return {
        "text": built.text,
        "tokens": built.block.tokens,
        "token_budget": built.token_budget,
        "sections": [_section(built, offer) for offer in built.offers],
    }


def _section(built: Context, offer: Offer) -> dict[str, Any]:
    included = built.block.included[offer.section]
    heading = count_tokens(f"## {offer.section}\n") if included else 0
    lines = _lines(included, built.recalled)
    return {
        "heading": offer.section,
        "share": offer.share,
        "token_share": int(built.token_budget * offer.share),
        "tokens": heading + sum(line["tokens"] for line in lines),
        "included": lines,
        "left_out": _lines(built.block.left_out[offer.section], built.recalled),
    }


def _lines(lines: Sequence[Line], recalled: Mapping[MemoryRef, Recalled]) -> Lines:
    return [
        {
            "memory_type": line.ref.type,
            "id": str(line.ref.id),
            "text": line.text.rstrip("\n"),
            "tokens": count_tokens(line.text),
            **_why(recalled.get(line.ref)),
        }
        for line in lines
    ]


def _why(one: Recalled | None) -> dict[str, Any]:
    """What a memory scored; an episode is there because it is recent, and has no score."""
    if one is None:
        return {"reason": "recent", "composite_score": None, "score_parts": None}
    parts = asdict(one.parts)
    return {"reason": "recalled", "composite_score": one.composite_score, "score_parts": parts}
