"""Check and clean new memories before they are stored."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from butlers.errors import InvalidInput
from butlers.kernel.json_values import DEEPEST, is_deeper
from butlers.kernel.secrets import Secrets, admitted, admitted_json, admitted_key, count_marks
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

AnyNew = TypeVar("AnyNew", bound=New)
_TEXTS = ("subject", "predicate", "content", "scope", "butler", "author", "source_butler")

# Keys of metadata that only the lifecycle writes: no memory starts as fading or forgotten.
RESERVED = frozenset(
    {"status", "forgotten", "needs_inversion", "harmful_reasons", "original_content"}
)


def checked_document(field: str, value: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
    """Return a JSON object without NUL and secrets; refuse one that is too long or too deep."""
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


def _line(field: str, limit: int, *, optional: bool = False) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        return None if optional and not value else inputs.checked_line(field, value, limit)

    return check


_CONTENT_CHARS: dict[type, int] = {
    NewEpisode: limits.MAX_EPISODE_CHARS,
    NewFact: limits.MAX_FACT_CHARS,
    NewRule: limits.MAX_RULE_CHARS,
}
_CHECKS: dict[str, Callable[[Any], Any]] = {
    "subject": _line("subject", inputs.MAX_SUBJECT),
    "predicate": _line("predicate", inputs.MAX_PREDICATE),
    "butler": _line("butler", inputs.MAX_SCOPE),
    "importance": lambda value: inputs.checked_number("importance", value, 0, 10),
    "permanence": lambda value: inputs.checked_word("permanence", value, Permanence),
    "scope": _line("scope", inputs.MAX_SCOPE),
    "tags": inputs.checked_tags,
    "author": _line("author", inputs.MAX_SUBJECT, optional=True),
    "source_butler": _line("source_butler", inputs.MAX_SCOPE, optional=True),
}


def checked_new(new: AnyNew, settings: MemoryModuleConfig) -> AnyNew:
    """Return a memory fit to be stored, with secrets masked; raise InvalidInput if it is not.

    Its `doubt` says why it would be quarantined, judged before cleaning hides the reason.
    """
    clean = _gated(new, settings.secrets)
    present = {name: getattr(clean, name) for name in _CHECKS if hasattr(clean, name)}
    checked = {name: _CHECKS[name](value) for name, value in present.items()}
    checked["content"] = inputs.checked_text("content", clean.content, _CONTENT_CHARS[type(new)])
    if not isinstance(clean, NewRule):
        checked["place"] = _checked_place(clean)
    if isinstance(clean, NewFact):
        _check_window(clean)
    doubt = _doubt(new) if settings.quarantine.enabled else ""
    return replace(clean, doubt=doubt, **_attachments(clean, settings.secrets), **checked)


def masked_between(given: New, stored: New) -> int:
    """Count the secrets of a memory that were masked before it was stored."""
    return max(0, count_marks(asdict(stored)) - count_marks(asdict(given)))


def _gated(new: AnyNew, secrets: Secrets) -> AnyNew:
    """Mask or refuse the secrets in a memory's texts, as the settings say."""
    name_of_content = f"{new.subject} {new.predicate}" if isinstance(new, NewFact) else ""
    texts: dict[str, Any] = {
        name: admitted(secrets, name, text, name_of_content if name == "content" else "")
        for name in _TEXTS
        if isinstance(text := getattr(new, name, None), str)
    }
    if not isinstance(new, NewEpisode):
        texts["tags"] = tuple(admitted(secrets, "tags", tag) for tag in new.tags)
    return replace(new, **texts)


def _doubt(new: New) -> str:
    """Say why a program's memory is suspicious; empty if it is not."""
    texts = [getattr(new, name, None) for name in ("subject", "predicate", "content", "author")]
    text = "\n".join(filter(None, (*texts, *getattr(new, "tags", ()))))
    names = (new.subject, new.predicate) if isinstance(new, NewFact) else ()
    return suspicion.doubt(text, names=names, orders_only=isinstance(new, NewRule))


def _attachments(new: New, secrets: Secrets) -> dict[str, Any]:
    """Check the metadata and the idempotency key."""
    metadata = checked_document("metadata", new.metadata, secrets) if new.metadata else {}
    key = new.idempotency_key
    if key:
        key = admitted_key(secrets, "idempotency_key", key)
    for name in RESERVED & metadata.keys():
        raise InvalidInput(f"metadata.{name}: found a reserved key; valid is any other name")
    checked = key and inputs.checked_line("idempotency_key", key, MAX_KEY)
    return {"metadata": metadata, "idempotency_key": checked}


def _checked_place(new: NewEpisode | NewFact) -> int | None:
    """Check the place in the session, which means nothing without a session."""
    if new.place is None:
        return None
    place = int(inputs.checked_number("place", new.place, 0, MAX_PLACE))
    return place if new.session_id is not None else None


def _check_window(new: NewFact) -> None:
    """Refuse a validity window that is empty or not in UTC's calendar."""
    for name, at in (("valid_from", new.valid_from), ("valid_to", new.valid_to)):
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


def _is_instant(at: datetime) -> bool:
    try:
        return at.tzinfo is not None and bool(at.astimezone(UTC))
    except OverflowError:
        return False


def checked_ref(name: str, memory_type: str, memory_id: Any) -> MemoryRef:
    """Check the fields `<name>_type` and `<name>_id` of a memory."""
    return MemoryRef(
        inputs.checked_word(f"{name}_type", memory_type, MemoryType),
        inputs.checked_id(f"{name}_id", memory_id),
    )
