"""Mask secrets in text that is stored, shown or logged.

A secret is recognised by its shape, its position or its name (`secret_kinds.toml`), and replaced by
a mark of its kind, such as `[secret: github token]`.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from butlers.kernel import secret_checks

LEAST_OF_A_PROVIDER = 20
"""The length of the shortest key of a provider."""

_TABLES = tomllib.loads((files(__package__) / "secret_kinds.toml").read_text(encoding="utf-8"))
_FLAGS = {"": 0, "ignorecase": re.IGNORECASE, "dotall": re.DOTALL}


@dataclass(frozen=True, slots=True)
class SecretKind:
    """One kind of secret; its name is shown in the mark that replaces one."""

    name: str
    shape: re.Pattern[str]
    anchors: tuple[str, ...]
    check: Callable[[str], bool] | None = None


def _kind(row: Mapping[str, Any]) -> SecretKind:
    """Compile a row of the table."""
    pattern = row["pattern"]
    for name, fragment in _TABLES["fragments"].items():
        pattern = pattern.replace(f"{{{name}}}", fragment)
    check = row.get("check")
    return SecretKind(
        row["name"],
        re.compile(pattern, _FLAGS[row.get("flags", "")]),
        tuple(row.get("anchors", ())),
        getattr(secret_checks, check) if check else None,
    )


def _after_names() -> Iterable[SecretKind]:
    """Yield the kinds that follow the name of a variable, a setting or a column."""
    for named in _TABLES["names"]:
        for row in _TABLES["after_names"]:
            pattern = row["pattern"].replace("{word}", named["word"])
            named_as = {"name": named["name"], "anchors": [named["anchor"]], "flags": "ignorecase"}
            yield _kind({**row, **named_as, "pattern": pattern})


KINDS = (
    *map(_kind, (*_TABLES["places"], *_TABLES["numbers"])),
    *_after_names(),
    *map(_kind, _TABLES["prose"]),
)
"""All kinds but those of providers; of several that match, the first names the secret."""

PROVIDERS = tuple(map(_kind, _TABLES["providers"]))
"""Keys and tokens whose shape names their provider."""

_MARK = re.compile(r"\[secret: [a-z][a-z ]{1,40}\]")
# Replaces each character of a mark while secrets are searched: part of no word, and no space.
_OPAQUE = "\ufffc"
# Masking one secret may reveal that its neighbour is one; only hostile text needs more rounds.
_ROUNDS = 8
_DIGITS = re.compile(r"\d\d")
_NAME = re.compile(
    r"api_?key|passw|passphrase|secret|credential|authorization|(?:^|_)(?:token|dsn)$",
    re.IGNORECASE,
)
_VARIABLE = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|AUTH|HEADERS")


@dataclass(frozen=True, slots=True)
class Masked:
    """A text with its secrets masked, how many there were, and of which kinds."""

    text: str
    count: int
    kinds: tuple[str, ...] = ()


def mark(kind: str) -> str:
    """Return the mark that replaces a secret of a kind."""
    return f"[secret: {kind}]"


def marks_in(text: str) -> int:
    """Count the marks in a text."""
    return len(_MARK.findall(text)) if "[secret: " in text else 0


def names_a_secret(name: str) -> bool:
    """Whether the value of a setting or log field with this name is always a secret."""
    return _NAME.search(name) is not None


def secret_variables(environment: Mapping[str, str]) -> set[str]:
    """Return the values of environment variables whose names say that they are secrets."""
    return {value for name, value in environment.items() if _VARIABLE.search(name)}


def masked(text: str, mask: str = "") -> Masked:
    """Replace every secret by `mask`, or by the mark of its kind; a second time changes nothing."""
    kinds: list[str] = []
    for _ in range(_ROUNDS):
        spans = _find_secrets(text, mask)
        if not spans:
            break
        kinds += [kind for *_, kind in spans]
        text = _replaced(text, spans, mask)
    return Masked(text, len(kinds), tuple(Counter(kinds)))


def masked_value(name: str, text: str) -> Masked:
    """Mask a value as it would be masked after its name and a colon."""
    label = f"{name}: "
    whole = masked(label + text)
    if not whole.text.startswith(label):  # the name is a secret itself
        return masked(text)
    return Masked(whole.text[len(label) :], whole.count, whole.kinds)


_Span = tuple[int, int, int, str]
"""Start and end of a secret, the rank of its kind, and its kind."""


class _Index:
    """Kinds by their anchors, each with its rank: a lower rank is more certain."""

    def __init__(self, kinds: Sequence[SecretKind], rank: int = 0) -> None:
        self.anchored: dict[str, list[tuple[int, SecretKind]]] = {}
        self.scanned: list[tuple[int, SecretKind]] = []
        for own_rank, kind in enumerate(kinds, rank):
            for anchor in kind.anchors:
                self.anchored.setdefault(anchor, []).append((own_rank, kind))
            if not kind.anchors:
                self.scanned.append((own_rank, kind))

    def spans(self, text: str, low: str, *, scan: bool) -> Iterator[_Span]:
        """Yield the secrets of these kinds; kinds without an anchor only if `scan`."""
        for anchor, kinds in self.anchored.items():
            if anchor in low:
                for rank, kind in kinds:
                    yield from _spans(kind, rank, _matches(kind, anchor, text, low))
        for rank, kind in self.scanned if scan else ():
            yield from _spans(kind, rank, kind.shape.finditer(text))


_PROVIDERS = _Index(PROVIDERS)
_OTHERS = _Index(KINDS, len(PROVIDERS))


def _find_secrets(text: str, mask: str) -> list[_Span]:
    """Find secrets, in order; overlapping ones are joined under the most certain kind."""
    low, opaque = _lowered(text), _opaque(text, mask)
    spans = list(_OTHERS.spans(opaque, low, scan=_DIGITS.search(text) is not None))
    if any(len(word) >= LEAST_OF_A_PROVIDER for word in text.split()):
        spans += _PROVIDERS.spans(opaque, low, scan=True)
    return _joined(spans)


def _lowered(text: str) -> str:
    """Lower the text without changing its length."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


def _opaque(text: str, mask: str) -> str:
    if mask:
        # A mask without letters never looks like a secret, and may be part of a key with stars.
        has_words = any(map(str.isalnum, mask))
        return text.replace(mask, _OPAQUE * len(mask)) if has_words else text
    if "[secret: " not in text:
        return text
    return _MARK.sub(lambda found: _OPAQUE * len(found[0]), text)


def _spans(kind: SecretKind, rank: int, matches: Iterable[re.Match[str]]) -> Iterator[_Span]:
    group = "secret" if "secret" in kind.shape.groupindex else 0
    for match in matches:
        value = match[group].strip(_OPAQUE)
        bare = value.replace(_OPAQUE, "")
        if any(map(str.isalnum, bare)) and (kind.check is None or kind.check(bare)):
            start = match.start(group) + match[group].index(value)
            yield start, start + len(value), rank, kind.name


def _matches(kind: SecretKind, anchor: str, text: str, low: str) -> Iterator[re.Match[str]]:
    index = low.find(anchor)
    while index >= 0:
        match = kind.shape.match(text, index)
        if match is not None:
            yield match
        # Past the match: in a value made of anchors, each would match the rest again.
        index = low.find(anchor, max(index + 1, match.end() if match else 0))


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
