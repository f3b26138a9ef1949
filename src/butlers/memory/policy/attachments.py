"""New memories fit to be stored, with what comes along: metadata, keys and origins."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, TypeVar, assert_never

from butlers.errors import InvalidInput
from butlers.kernel.json_values import DEEPEST, is_deeper
from butlers.kernel.secret_policy import (
    Secrets,
    admitted,
    admitted_json,
    admitted_key,
    marks_within,
)
from butlers.kernel.text import clean_json
from butlers.memory import limits
from butlers.memory.model import (
    MemoryRef,
    MemoryType,
    New,
    NewEpisode,
    NewFact,
    NewRule,
    Permanence,
)
from butlers.memory.policy import inputs, suspicion
from butlers.memory.settings import MemoryModuleConfig

MAX_DOCUMENT = 50_000
MAX_DEPTH = DEEPEST // 2
# With the tenant it forms an index entry, which PostgreSQL bounds at 2.7 kB.
MAX_KEY = 400
MAX_PLACE = 2**31 - 1

AnyNew = TypeVar("AnyNew", NewEpisode, NewFact, NewRule)
_TEXTS = ("subject", "predicate", "content", "scope", "butler", "author", "source_butler")

# What the lifecycle writes into metadata; a memory must not be born fading or forgotten.
RESERVED = frozenset(
    {"status", "forgotten", "needs_inversion", "harmful_reasons", "original_content"}
)


def checked_document(field: str, value: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
    """A JSON object without NUL and secrets, of bounded length, that PostgreSQL can hold."""
    if is_deeper(value, MAX_DEPTH):
        raise InvalidInput(
            f"{field}: found lists and objects more than {MAX_DEPTH} deep; valid is at most that"
        )
    try:
        cleaned: dict[str, Any] = admitted_json(secrets, field, clean_json(value))
        written = len(json.dumps(cleaned, allow_nan=False))
    except InvalidInput:
        raise
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput(
            f"{field}: found a value that JSON cannot hold; "
            "valid are texts, finite numbers, true, false, null, lists and objects of these"
        ) from None
    if written > MAX_DOCUMENT:
        raise InvalidInput(
            f"{field}: found {written} characters of JSON; valid is at most {MAX_DOCUMENT}"
        )
    return cleaned


def checked_new(new: New, settings: MemoryModuleConfig) -> New:
    """A memory of any kind fit to be stored."""
    match new:
        case NewEpisode():
            return checked_episode(new, settings)
        case NewFact():
            return checked_fact(new, settings)
        case NewRule():
            return checked_rule(new, settings)
        case _:
            assert_never(new)


def checked_episode(new: NewEpisode, settings: MemoryModuleConfig) -> NewEpisode:
    """An episode fit to be stored."""
    given, new = new, _gated(new, settings.secrets)
    return replace(
        new,
        content=inputs.checked_text("content", new.content, limits.MAX_EPISODE_CHARS),
        butler=inputs.checked_line("butler", new.butler, inputs.MAX_SCOPE),
        importance=inputs.checked_number("importance", new.importance, 0, 10),
        doubt=_doubt(settings, given.content, given.author),
        **_attachments(new, settings.secrets),
        **_circumstances(new),
    )


def checked_fact(new: NewFact, settings: MemoryModuleConfig) -> NewFact:
    """A fact fit to be stored."""
    given, new = new, _gated(new, settings.secrets)
    return replace(
        new,
        subject=inputs.checked_line("subject", new.subject, inputs.MAX_SUBJECT),
        predicate=inputs.checked_line("predicate", new.predicate, inputs.MAX_PREDICATE),
        content=inputs.checked_text("content", new.content, limits.MAX_FACT_CHARS),
        importance=inputs.checked_number("importance", new.importance, 0, 10),
        permanence=inputs.checked_word("permanence", new.permanence, Permanence),
        scope=inputs.checked_line("scope", new.scope, inputs.MAX_SCOPE),
        tags=inputs.checked_tags(new.tags),
        doubt=_doubt_fact(settings, given),
        **_attachments(new, settings.secrets),
        **_circumstances(new),
        **_window(new),
        source_butler=_origin(new),
    )


def checked_rule(new: NewRule, settings: MemoryModuleConfig) -> NewRule:
    """A rule fit to be stored."""
    given, new = new, _gated(new, settings.secrets)
    return replace(
        new,
        content=inputs.checked_text("content", new.content, limits.MAX_RULE_CHARS),
        scope=inputs.checked_line("scope", new.scope, inputs.MAX_SCOPE),
        tags=inputs.checked_tags(new.tags),
        doubt=_doubt(settings, given.content, *given.tags, orders_only=True),
        **_attachments(new, settings.secrets),
        source_butler=_origin(new),
    )


def masked_between(given: New, kept: New) -> int:
    """How many secrets of a memory were masked before it was kept."""
    return max(0, marks_within(asdict(kept)) - marks_within(asdict(given)))


def _gated(new: AnyNew, secrets: Secrets) -> AnyNew:
    """A memory whose texts hold no secret, as far as the settings say so."""
    said = {name: getattr(new, name, None) for name in _TEXTS}
    texts: dict[str, Any] = {
        name: admitted(secrets, name, text, _name_of(new) if name == "content" else "")
        for name, text in said.items()
        if isinstance(text, str)
    }
    if not isinstance(new, NewEpisode):
        texts["tags"] = tuple(admitted(secrets, "tags", tag) for tag in new.tags)
    return replace(new, **texts)


def _name_of(new: New) -> str:
    """What the content of a fact goes by."""
    return f"{new.subject} {new.predicate}" if isinstance(new, NewFact) else ""


def _doubt(settings: MemoryModuleConfig, *said: str | None, orders_only: bool = False) -> str:
    """Why what was said is doubted, as it came: cleaning may take away what shows it."""
    if not settings.quarantine.enabled:
        return ""
    return suspicion.doubt("\n".join(filter(None, said)), orders_only=orders_only)


def _doubt_fact(settings: MemoryModuleConfig, new: NewFact) -> str:
    named = new.subject, new.predicate
    why = _doubt(settings, *named, new.content, new.author, *new.tags)
    return why or (suspicion.doubt_name(*named) if settings.quarantine.enabled else "")


def _attachments(new: New, secrets: Secrets) -> dict[str, Any]:
    """Metadata and idempotency key, which every memory may have."""
    key, metadata = new.idempotency_key, checked_document("metadata", new.metadata, secrets)
    if key:
        key = admitted_key(secrets, "idempotency_key", key)
    for name in RESERVED & metadata.keys():
        raise InvalidInput(f"metadata.{name}: found a reserved key; valid is any other name")
    checked = key and inputs.checked_line("idempotency_key", key, MAX_KEY)
    return {"metadata": metadata, "idempotency_key": checked}


def _circumstances(new: NewEpisode | NewFact) -> dict[str, Any]:
    """Who said it, and where in its session; a place means nothing without one."""
    author, place = new.author, new.place
    if place is not None:
        place = int(inputs.checked_number("place", place, 0, MAX_PLACE))
    return {
        "author": inputs.checked_line("author", author, inputs.MAX_SUBJECT) if author else None,
        "place": place if new.session_id is not None else None,
    }


def _window(new: NewFact) -> dict[str, Any]:
    """When it holds; of what never does there is nothing to store."""
    given = {"valid_from": new.valid_from, "valid_to": new.valid_to}
    for name, at in given.items():
        if at is not None and not _is_instant(at):
            raise InvalidInput(
                f"{name}: found {at.isoformat()}; valid is a time with its zone, "
                "between the years 1 and 9999 in UTC"
            )
    if new.valid_from and new.valid_to and new.valid_from >= new.valid_to:
        raise InvalidInput(
            f"valid_to: found {new.valid_to.isoformat()}; valid is a time after valid_from, "
            f"which is {new.valid_from.isoformat()}"
        )
    return given


def _is_instant(at: datetime) -> bool:
    try:
        return at.tzinfo is not None and bool(at.astimezone(UTC))
    except OverflowError:
        return False


def _origin(new: NewFact | NewRule) -> str | None:
    butler = new.source_butler
    return inputs.checked_line("source_butler", butler, inputs.MAX_SCOPE) if butler else None


def checked_ref(name: str, memory_type: str, memory_id: Any) -> MemoryRef:
    """A memory by kind and id, as given in the fields `<name>_type` and `<name>_id`."""
    return MemoryRef(
        inputs.checked_word(f"{name}_type", memory_type, MemoryType),
        inputs.checked_id(f"{name}_id", memory_id),
    )
