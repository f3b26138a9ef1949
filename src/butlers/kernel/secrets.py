"""Secrets, recognised by their shape, place or name, wherever text is stored, shown or logged.

Each is replaced by a mark of its kind, such as `[secret: github token]`; what may be a secret is
written in one table, `secret_kinds.py` and, for services, `secret_providers.py`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from butlers.kernel.secret_kinds import KINDS, LEAST_OF_A_PROVIDER, PROVIDERS, SecretKind

_MARK = re.compile(r"\[secret: [a-z][a-z ]{1,40}\]")
# Stands for each character of a mark while secrets are looked for: part of no word, and no space.
_OPAQUE = "\ufffc"
# What was hidden may show that its neighbour is a secret; more rounds only hostile text needs.
_ROUNDS = 8
_DIGITS = re.compile(r"\d\d")
_NAME = re.compile(
    r"api_?key|passw|passphrase|secret|credential|authorization|(?:^|_)(?:token|dsn)$",
    re.IGNORECASE,
)
_VARIABLE = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|AUTH|HEADERS")


@dataclass(frozen=True, slots=True)
class Masked:
    """A text fit to be stored or shown, how many secrets it held, and of which kinds."""

    text: str
    count: int
    kinds: tuple[str, ...] = ()


def mark(kind: str) -> str:
    """What stands in a text for a secret of a kind."""
    return f"[secret: {kind}]"


def marks_in(text: str) -> int:
    """How many secrets were hidden in a text before."""
    return len(_MARK.findall(text)) if "[secret: " in text else 0


def names_a_secret(name: str) -> bool:
    """Whether what goes by this name, a setting's or a log's, is a secret whatever it says."""
    return _NAME.search(name) is not None


def secret_variables(environment: Mapping[str, str]) -> set[str]:
    """The values of the environment's variables that are secrets by their names."""
    return {value for name, value in environment.items() if _VARIABLE.search(name)}


def masked(text: str, mask: str = "") -> Masked:
    """The text with every secret it is seen to hold replaced; masking twice changes nothing.

    The mask is the mark of the secret's kind, or for all the one that is given.
    """
    kinds: list[str] = []
    for _ in range(_ROUNDS):
        found = _find_secrets(text, mask)
        if not found:
            break
        kinds += [kind for *_, kind in found]
        text = _replaced(text, found, mask)
    return Masked(text, len(kinds), tuple(Counter(kinds)))


def masked_value(name: str, text: str) -> Masked:
    """A text that goes by a name, masked as it would be where both stand together."""
    said = f"{name}: "
    whole = masked(said + text)
    if not whole.text.startswith(said):  # the name is a secret itself
        return masked(text)
    return Masked(whole.text[len(said) :], whole.count, whole.kinds)


_Span = tuple[int, int, int, str]
"""From where to where a secret stands, how sure its kind is, and which that is."""


class _Index:
    """Kinds by their anchors, each with its rank: what ranks lower is surer."""

    def __init__(self, kinds: Sequence[SecretKind], rank: int = 0) -> None:
        self.anchored: dict[str, list[tuple[int, SecretKind]]] = {}
        self.scanned: list[tuple[int, SecretKind]] = []
        for place, kind in enumerate(kinds, rank):
            for anchor in kind.anchors:
                self.anchored.setdefault(anchor, []).append((place, kind))
            if not kind.anchors:
                self.scanned.append((place, kind))

    def spans(self, text: str, low: str, *, scan: bool) -> Iterator[_Span]:
        """Where secrets of these kinds stand; without anchors only where it is worth a scan."""
        for anchor, kinds in self.anchored.items():
            if anchor in low:
                for rank, kind in kinds:
                    yield from _spans(kind, rank, _matches(kind, anchor, text, low))
        for rank, kind in self.scanned if scan else ():
            yield from _spans(kind, rank, kind.shape.finditer(text))


_PROVIDERS = _Index(PROVIDERS)
_OTHERS = _Index(KINDS, len(PROVIDERS))


def _find_secrets(text: str, mask: str) -> list[_Span]:
    """Where secrets stand, in order; of those that overlap the surest names the whole."""
    low, seen = _lowered(text), _opaque(text, mask)
    spans = list(_OTHERS.spans(seen, low, scan=_DIGITS.search(text) is not None))
    if any(len(word) >= LEAST_OF_A_PROVIDER for word in text.split()):
        spans += _PROVIDERS.spans(seen, low, scan=True)
    return _joined(spans)


def _lowered(text: str) -> str:
    """The text in small letters, each where its capital stood."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(small if len(small := one.lower()) == 1 else one for one in text)


def _opaque(text: str, mask: str) -> str:
    if mask:
        # One without letters is never taken for a secret, and may stand in a key with stars.
        said = any(map(str.isalnum, mask))
        return text.replace(mask, _OPAQUE * len(mask)) if said else text
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
    place = low.find(anchor)
    while place >= 0:
        match = kind.shape.match(text, place)
        if match is not None:
            yield match
        # Past what matched: of a value that is all anchors, each would match the rest again.
        place = low.find(anchor, max(place + 1, match.end() if match else 0))


def _joined(spans: list[_Span]) -> list[_Span]:
    joined: list[_Span] = []
    for span in sorted(spans):
        if joined and span[0] < joined[-1][1]:
            surest = min(joined[-1], span, key=lambda one: one[2])
            joined[-1] = (joined[-1][0], max(joined[-1][1], span[1]), *surest[2:])
        else:
            joined.append(span)
    return joined


def _replaced(text: str, spans: list[_Span], mask: str) -> str:
    parts, place = [], 0
    for start, end, _, kind in spans:
        parts += [text[place:start], mask or mark(kind)]
        place = end
    return "".join([*parts, text[place:]])
