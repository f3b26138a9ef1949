"""Check and clean what callers give: new memories, ids, words, texts and limits."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from butlers.errors import InvalidInput
from butlers.kernel.json_values import DEEPEST, is_deeper
from butlers.kernel.secrets import Secrets, admitted, admitted_json, admitted_key, count_marks
from butlers.kernel.text import clean, clean_json, normalise_whitespace
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
from butlers.memory.policy import suspicion
from butlers.memory.settings import MemoryModuleConfig

# Together with scope and tenant these form an index entry, which PostgreSQL bounds at 2.7 kB.
MAX_SUBJECT = 200
MAX_PREDICATE = 100
MAX_SCOPE = 100
MAX_NAME = 200
MAX_TAGS = 50
MAX_TAG = 100
MAX_REASON = 2_000
MAX_DOCUMENT = 50_000
MAX_DEPTH = DEEPEST // 2
# With the tenant it forms an index entry, which PostgreSQL bounds at 2.7 kB.
MAX_KEY = 400
MAX_PLACE = 2**31 - 1

Word = TypeVar("Word", bound=StrEnum)
AnyNew = TypeVar("AnyNew", bound=New)
_TEXTS = ("subject", "predicate", "content", "scope", "butler", "author", "source_butler")

# Keys of metadata that only the lifecycle writes: no memory starts as fading or forgotten.
RESERVED = frozenset(
    {"status", "forgotten", "needs_inversion", "harmful_reasons", "original_content"}
    | {"reported_harmful"}
)


def checked_text(field: str, value: str, limit: int) -> str:
    """Return a text without NUL and surrounding space; refuse an empty or too long one."""
    cleaned = clean(value).strip()
    if not cleaned:
        raise InvalidInput(f"{field}: found an empty text; valid is 1 to {limit} characters")
    if len(cleaned) > limit:
        raise InvalidInput(
            f"{field}: found a text of {len(cleaned)} characters; valid is at most {limit}"
        )
    return cleaned


def checked_line(field: str, value: str, limit: int) -> str:
    """Return a checked text on one line, so that keys do not differ by invisible characters."""
    return checked_text(field, normalise_whitespace(clean(value)), limit)


def checked_number(field: str, value: float, low: float, high: float) -> float:
    """Return a number; refuse one out of bounds, and NaN."""
    if math.isnan(value) or not low <= value <= high:
        raise InvalidInput(f"{field}: found {value}; valid is {low:g} to {high:g}")
    return float(value)


def checked_word(field: str, value: str, vocabulary: type[Word]) -> Word:
    """Return a word of a vocabulary; refuse others."""
    try:
        return vocabulary(value)
    except ValueError:
        valid = ", ".join(vocabulary)
        raise InvalidInput(f"{field}: found {value[:80]!r}; valid are {valid}") from None


def checked_id(field: str, value: str | UUID) -> UUID:
    """Return a UUID; refuse anything else."""
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value)
    except ValueError:
        raise InvalidInput(
            f"{field}: found {value[:80]!r}; valid is a UUID such as "
            "00000000-0000-4000-8000-000000000000"
        ) from None


def checked_limit(value: int, most: int) -> int:
    """Return a limit; refuse one out of bounds."""
    if not 1 <= value <= most:
        raise InvalidInput(f"limit: found {value}; valid is 1 to {most}")
    return value


def checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return tags on one line each, without repetition, in the order given."""
    if len(tags) > MAX_TAGS:
        raise InvalidInput(f"tags: found {len(tags)} of them; valid is at most {MAX_TAGS}")
    return tuple(dict.fromkeys(checked_line("tags", tag, MAX_TAG) for tag in tags))


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


_Check = Callable[[Any], Any]
_FIELDS: dict[str, _Check] = {
    "subject": partial(checked_line, "subject", limit=MAX_SUBJECT),
    "predicate": partial(checked_line, "predicate", limit=MAX_PREDICATE),
    "butler": partial(checked_line, "butler", limit=MAX_SCOPE),
    "importance": partial(checked_number, "importance", low=0, high=10),
    "permanence": partial(checked_word, "permanence", vocabulary=Permanence),
    "scope": partial(checked_line, "scope", limit=MAX_SCOPE),
    "tags": checked_tags,
    "author": partial(checked_line, "author", limit=MAX_SUBJECT),
    "source_butler": partial(checked_line, "source_butler", limit=MAX_SCOPE),
}


def _checks_of(kind: type[New], chars: int) -> dict[str, tuple[Any, _Check]]:
    """Return the default of each field, which is valid, and the check of any other value."""
    defaults = {one.name: one.default for one in fields(kind)}
    checks = _FIELDS | {"content": partial(checked_text, "content", limit=chars)}
    return {name: (defaults[name], check) for name, check in checks.items() if name in defaults}


_CHECKS: dict[type, dict[str, tuple[Any, _Check]]] = {
    NewEpisode: _checks_of(NewEpisode, limits.MAX_EPISODE_CHARS),
    NewFact: _checks_of(NewFact, limits.MAX_FACT_CHARS),
    NewRule: _checks_of(NewRule, limits.MAX_RULE_CHARS),
}


def checked_new(new: AnyNew, settings: MemoryModuleConfig) -> AnyNew:
    """Return a memory fit to be stored, with secrets masked; raise InvalidInput if it is not.

    Its `doubt` says why it would be quarantined, judged before cleaning hides the reason.
    """
    masked, checked = _gated(new, settings.secrets), dict[str, Any]()
    for name, (default, check) in _CHECKS[type(new)].items():
        value = getattr(masked, name)
        is_default = value == default or (default is None and value == "")
        checked[name] = default if is_default else check(value)
    if not isinstance(masked, NewRule) and masked.place is not None:
        checked["place"] = _checked_place(masked.place, masked.session_id)
    if isinstance(masked, NewFact) and (masked.valid_from or masked.valid_to):
        _check_window(masked)
    if masked.metadata or masked.idempotency_key:
        checked |= _attachments(masked, settings.secrets)
    doubt = _doubt(new) if settings.quarantine.enabled else ""
    return replace(masked, doubt=doubt, **checked)


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
    return suspicion.doubt(text, names=names)


def _attachments(new: New, secrets: Secrets) -> dict[str, Any]:
    """Check the metadata and the idempotency key."""
    key, metadata = new.idempotency_key, checked_document("metadata", new.metadata, secrets)
    if key:
        key = admitted_key(secrets, "idempotency_key", key)
    for name in RESERVED & metadata.keys():
        raise InvalidInput(f"metadata.{name}: found a reserved key; valid is any other name")
    checked = key and checked_line("idempotency_key", key, MAX_KEY)
    return {"metadata": metadata, "idempotency_key": checked}


def _checked_place(place: int, session_id: UUID | None) -> int | None:
    """Check the place in the session, which means nothing without a session."""
    checked = int(checked_number("place", place, 0, MAX_PLACE))
    return checked if session_id is not None else None


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
        checked_word(f"{name}_type", memory_type, MemoryType),
        checked_id(f"{name}_id", memory_id),
    )
