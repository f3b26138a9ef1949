"""Secrets, recognised by their shape or by their name, wherever text is stored, shown or logged."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MASK = "[secret]"

_PEM = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_PEM_END = r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_NAMED = (
    r"\b(?:[\w.-]{0,24}?(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key"
    r"|private[_-]?key|credentials?|auth[_-]?key)|pwd|pw)"
)
_IS = r"\s*(?:=>|:=|[:=])\s*"
# Prose has colons too: what follows one there is a secret only if it is long enough.
_IS_PLAINLY = r"\s*(?:(?:=>|:=|:)\s*(?=\S{4})|=\s*)"
# Each either matches a secret whole, or has the secret alone in the group `secret`.
_SHAPES: Sequence[re.Pattern[str]] = (
    # A block that was cut off still holds most of its key.
    re.compile(rf"{_PEM}.*?(?:{_PEM_END}|\Z)", re.DOTALL),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?"),
    # Services that complain of a key show it with stars in its middle.
    re.compile(r"\bsk-[\w*-]{6,}"),
    re.compile(r"\b(?:sk|rk|pk|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,}"),
    re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,})"),
    re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b"),
    re.compile(r"\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}"),
    re.compile(r"\bxox[abeoprs]-[\w-]{10,}|\bxapp-[\w-]{10,}"),
    re.compile(r"https://hooks\.slack\.com/services/\S+"),
    re.compile(r"\b(?:hf|npm|btl|dop_v1|shpat)_[\w-]{20,}|\bpypi-[\w-]{20,}"),
    re.compile(r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    re.compile(r"\bAGE-SECRET-KEY-1[0-9A-Z]{40,}"),
    re.compile(r"\b\d{8,10}:AA[\w-]{30,}"),
    re.compile(r"(?i)\b(?:bearer|basic)\s+(?P<secret>[\w.~+/=-]{8,}|(?=\w*[\d.]\w)[\w.~+/=-]{6,})"),
    # A password that was not quoted may hold any sign; a port is none.
    re.compile(r"(?<=://)[^\s/@:]*:(?!\d+(?:[/?#\s]|\Z))(?P<secret>\S{1,200})(?=@)"),
    # A token in the place of a user; a user's name is seldom long and has seldom digits.
    re.compile(r"(?<=://)(?P<secret>(?=[^\s/@:]*\d)[^\s/@:]{8,}|[^\s/@:]{20,})(?=@)"),
    re.compile(rf"{_NAMED}[\"']?{_IS}(?P<quote>[\"'])(?P<secret>.+?)(?P=quote)", re.IGNORECASE),
    re.compile(_NAMED + _IS_PLAINLY + r"(?P<secret>[^\s\"',;<>]+)", re.IGNORECASE),
    re.compile(r"(?<=\s)--?" + _NAMED + r"[ =](?P<secret>[^\s\"'-][^\s\"']{3,})", re.IGNORECASE),
    re.compile(
        r"(?i)\b(?:password|passphrase|pin|api key|secret(?: key)?|access token) "
        r"(?:is|was)(?: now)?:? [\"'`]?(?P<secret>[^\s\"'`,;]{4,})"
    ),
)
_NAME = re.compile(
    r"api_?key|passw|passphrase|secret|credential|authorization|(?:^|_)(?:token|dsn)$",
    re.IGNORECASE,
)
_VARIABLE = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|AUTH|HEADERS")


@dataclass(frozen=True, slots=True)
class Masked:
    """A text fit to be stored or shown, and how many secrets it held."""

    text: str
    count: int


def names_a_secret(name: str) -> bool:
    """Whether what goes by this name, a setting's or a log's, is a secret whatever it says."""
    return _NAME.search(name) is not None


def secret_variables(environment: Mapping[str, str]) -> set[str]:
    """The values of the environment's variables that are secrets by their names."""
    return {value for name, value in environment.items() if _VARIABLE.search(name)}


def masked(text: str, mask: str = MASK) -> Masked:
    """The text with every secret it is seen to hold replaced; masking twice changes nothing."""
    count = 0
    for shape in _SHAPES:
        text, found = _without(shape, text, mask)
        count += found
    return Masked(text, count)


def _without(shape: re.Pattern[str], text: str, mask: str) -> tuple[str, int]:
    found = 0

    def hidden(match: re.Match[str]) -> str:
        nonlocal found
        group = "secret" if "secret" in shape.groupindex else 0
        rest = match[group].replace(mask, "")
        if rest != match[group] and not any(map(str.isalnum, rest)):
            return match[0]
        found += 1
        start, end = match.span(group)
        return match[0][: start - match.start()] + mask + match[0][end - match.start() :]

    return shape.sub(hidden, text), found
