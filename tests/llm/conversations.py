"""What the command lines are asked in tests."""

from pathlib import Path
from typing import Any

import pytest

from butlers.llm import Completion, CompletionFailed, LanguageModel, RuntimeOptions, language_model
from llm.standins import Call

SCHEMA = {
    "type": "object",
    "properties": {
        "facts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"subject": {"type": "string"}, "note": {"type": "string"}},
                "required": ["subject", "note"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["facts"],
    "additionalProperties": False,
}
GOOD = {"facts": [{"subject": "Alice", "note": "black coffee"}]}
PROMPT = "Alice likes her coffee black, said Grüße 🐙 before nine in the morning.\n" * 3
SYSTEM = "You extract facts from what is between the fences."
KEY = "sk-test-0123456789"


def model_of(programs: Path, kind: str, **options: Any) -> LanguageModel:
    chosen = language_model(RuntimeOptions(kind=kind, command=(str(programs / kind),), **options))
    assert chosen is not None
    return chosen


async def asked(model: LanguageModel, schema: Any = None, seconds: float = 40.0) -> Completion:
    return await model.complete(
        PROMPT, system=SYSTEM, schema=schema, timeout_seconds=seconds, label="test"
    )


async def failure(model: LanguageModel, schema: Any = None, seconds: float = 40.0) -> str:
    with pytest.raises(CompletionFailed) as failed:
        await asked(model, schema, seconds)
    reason = str(failed.value)
    assert "\n" not in reason and "coffee black" not in reason and KEY not in reason
    return reason


def structured(value: Any) -> Call:
    return Call("StructuredOutput", value)


def is_untouched(home: Path) -> bool:
    """Whether no hook, no server and no tool of the home ran."""
    return not any((home / mark).exists() for mark in ("hooked", "spied", "pwned"))


def running_in(home: Path) -> list[int]:
    """The processes that were given this home."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"HOME={home}\0".encode() in variables:
            found.append(int(entry.name))
    return found
