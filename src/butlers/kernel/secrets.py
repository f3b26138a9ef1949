"""Mask secrets in text that is stored, shown or logged.

A secret is recognised by its shape, its position or its name (`secret_kinds.toml`), and replaced by
a mark of its kind, such as `[secret: github token]`. Before text is stored, the butler's setting
decides: mask its secrets, refuse it, or keep it.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from butlers.errors import InvalidInput
from butlers.kernel.secret_kinds import BARE, KINDS, PROVIDERS, SecretKind
from butlers.kernel.text import clean

Secrets = Literal["mask", "refuse", "keep"]
"""What a butler does with a secret in what it stores."""

LEAST_OF_A_PROVIDER = 20
"""The length of the shortest key of a provider."""

SECRET_NAME = re.compile(
    r"api_?key|passw|passphrase|secret|credential|authorization|(?:^|_)(?:token|dsn)$",
    re.IGNORECASE,
)
"""Found in the name of a setting or log field whose value is always a secret."""

_VARIABLE = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|AUTH|HEADERS")
_MARK_START = "[secret: "
_MARK = re.compile(r"\[secret: [a-z][a-z ]{1,40}\]")
# Replaces each character of a mark while secrets are searched: part of no word, and no space.
_OPAQUE = "\ufffc"
# Masking one secret may reveal that its neighbour is one; only hostile text needs more rounds.
_ROUNDS = 8
_DIGITS = re.compile(r"\d\d")

_Ranked = tuple[int, SecretKind]
"""A kind with its rank: a lower rank is more certain."""
_Span = tuple[int, int, int, str]
"""Start and end of a secret, the rank of its kind, and its kind."""


@dataclass(frozen=True, slots=True)
class Masked:
    """A text with its secrets masked, how many there were, and of which kinds."""

    text: str
    count: int
    kinds: tuple[str, ...] = ()


def mark(kind: str) -> str:
    """Return the mark that replaces a secret of a kind."""
    return f"{_MARK_START}{kind}]"


def count_marks(value: Any) -> int:
    """Count the masked secrets in a value, at every depth."""
    match value:
        case str():
            return len(_MARK.findall(value)) if _MARK_START in value else 0
        case list() | tuple():
            return sum(map(count_marks, value))
        case Mapping():
            return sum(map(count_marks, [*value.keys(), *value.values()]))
    return 0


def secret_variables(environment: Mapping[str, str]) -> set[str]:
    """Return the values of environment variables whose names say that they are secrets."""
    return {value for name, value in environment.items() if _VARIABLE.search(name)}


def masked(text: str, mask: str = "", *, name: str | None = None, is_id: bool = False) -> Masked:
    """Replace every secret by `mask`, or by the mark of its kind; a second time changes nothing.

    With a `name`, the text is masked as it would be after this name and a colon. An id is drawn at
    random itself: in one, only secrets that have a form of their own are masked.
    """
    label = "" if name is None else f"{name}: "
    whole, kinds = label + text, list[str]()
    for _ in range(_ROUNDS):
        if not (spans := _find_secrets(whole, mask, is_id=is_id)):
            break
        kinds += [kind for *_, kind in spans]
        whole = _replaced(whole, spans, mask)
    if not whole.startswith(label):  # the name is a secret itself
        return masked(text, mask, is_id=is_id)
    return Masked(whole[len(label) :], len(kinds), tuple(Counter(kinds)))


def admitted(secrets: Secrets, field: str, text: str, name: str = "") -> str:
    """Return a text as it may be stored; its `name` may show that it is a secret."""
    if secrets == "keep":
        return text
    result = masked(clean(text), name=clean(name) if name else None)
    if secrets == "refuse":
        _refuse_any(field, result)
    return result.text if result.count else text


def admitted_json(secrets: Secrets, field: str, value: Any, name: str = "") -> Any:
    """Return a JSON value of bounded depth as it may be stored, keys included."""
    match value:
        case str():
            return admitted(secrets, field, value, name)
        case list():
            return [admitted_json(secrets, field, inner, name) for inner in value]
        case Mapping():
            return {
                admitted(secrets, field, key): admitted_json(secrets, f"{field}.{key}", inner, key)
                for key, inner in value.items()
            }
    return value


def admitted_key(secrets: Secrets, field: str, key: str) -> str:
    """Return a key as it may be stored; one with a secret is hashed, so that keys stay distinct."""
    if admitted(secrets, field, key) == key:
        return key
    return f"sha256:{hashlib.sha256(key.encode(errors='replace')).hexdigest()}"


def refuse_secret(secrets: Secrets, field: str, key: str) -> None:
    """Raise InvalidInput if a key that people read holds a secret, unless secrets are kept."""
    if secrets != "keep":
        _refuse_any(field, masked(clean(key)))


def _refuse_any(field: str, result: Masked) -> None:
    if result.count:
        # A field of metadata is named by its keys, which may be secrets too.
        where, kinds = masked(field).text, ", ".join(result.kinds)
        raise InvalidInput(f"{where}: found a secret ({kinds}), which is not kept; leave it out")


def _by_anchor(kinds: Iterable[_Ranked]) -> dict[str, list[_Ranked]]:
    """Group kinds by their anchors; those without one stand under the empty text."""
    groups: dict[str, list[_Ranked]] = {}
    for ranked in kinds:
        for anchor in ranked[1].anchors or ("",):
            groups.setdefault(anchor, []).append(ranked)
    return groups


_PROVIDERS = _by_anchor(enumerate(PROVIDERS))
_BARE = _by_anchor(enumerate(BARE, len(PROVIDERS) + len(KINDS)))
_OTHERS = _by_anchor(enumerate(KINDS, len(PROVIDERS)))
_WITHOUT_NUMBERS = {anchor: kinds for anchor, kinds in _OTHERS.items() if anchor}


def _find_secrets(text: str, mask: str, *, is_id: bool = False) -> list[_Span]:
    """Find secrets, in order; overlapping ones are joined under the most certain kind."""
    low = text.lower()
    if len(low) != len(text):
        low = "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
    opaque = _opaque(text, mask) if mask or _MARK_START in text else text
    tables = [_OTHERS if _DIGITS.search(text) else _WITHOUT_NUMBERS]
    if any(len(word) >= LEAST_OF_A_PROVIDER for word in text.split()):
        tables += [_PROVIDERS] if is_id else [_PROVIDERS, _BARE]
    spans = [
        span
        for table in tables
        for anchor, kinds in table.items()
        if anchor in low
        for ranked in kinds
        for span in _spans(ranked, anchor, opaque, low)
    ]
    return _joined(spans) if spans else []


def _opaque(text: str, mask: str) -> str:
    if not mask:
        return _MARK.sub(lambda found: _OPAQUE * len(found[0]), text)
    # A mask without letters never looks like a secret, and may be part of a key with stars.
    return text.replace(mask, _OPAQUE * len(mask)) if any(map(str.isalnum, mask)) else text


def _spans(ranked: _Ranked, anchor: str, text: str, low: str) -> Iterator[_Span]:
    """Yield the secrets of a kind: at its anchor, or anywhere if that is empty."""
    rank, kind = ranked
    group = "secret" if "secret" in kind.shape.groupindex else 0
    find, at = kind.shape.match if anchor else kind.shape.search, low.find(anchor)
    while at >= 0:
        match = find(text, at)
        if match is not None:
            value = match[group].strip(_OPAQUE)
            bare = value.replace(_OPAQUE, "")
            if any(map(str.isalnum, bare)) and (kind.check is None or kind.check(bare)):
                start = match.start(group) + match[group].index(value)
                yield start, start + len(value), rank, kind.name
        elif not anchor:
            return
        # Past the match: in a value made of anchors, each would match the rest again.
        at = low.find(anchor, max(at + 1, match.end() if match else 0))


def _joined(spans: list[_Span]) -> list[_Span]:
    joined: list[_Span] = []
    for span in sorted(spans):
        if joined and span[0] < joined[-1][1]:
            surest = min(joined[-1], span, key=lambda each: each[2])
            joined[-1] = (joined[-1][0], max(joined[-1][1], span[1]), *surest[2:])
        else:
            joined.append(span)
    return joined


def _replaced(text: str, spans: list[_Span], mask: str) -> str:
    parts, done = [], 0
    for start, end, _, kind in spans:
        parts += [text[done:start], mask or mark(kind)]
        done = end
    return "".join([*parts, text[done:]])
