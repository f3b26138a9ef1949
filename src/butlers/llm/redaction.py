"""What may be repeated of words that a runtime wrote: one short line, no secret, no prompt."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from butlers.kernel.text import one_line

MAX_CHARACTERS = 300
HIDDEN = "[hidden]"
_TAIL_CHARACTERS = 8 * MAX_CHARACTERS

_SECRET_NAME = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|AUTH|HEADERS")
_SHORTEST_SECRET = 4
_SHAPED_LIKE_A_SECRET = (
    re.compile(r"\bsk-[\w-]{4,}"),
    re.compile(r"(?i)(?<=bearer )\S+"),
    re.compile(r"(?i)(?<=://)[^/\s@]+(?=@)"),
    re.compile(
        r"""(?i)(?:api[_-]?key|token|secret|password)["']?\s*[:=]\s*["']?(?!\[hidden)[^\s"',}]+"""
    ),
    re.compile(r"\beyJ[\w-]{8,}\.[\w.-]+"),
)
# Of two texts that share 23 characters or more, one of the blocks of 12 lies in the shared part.
_BLOCK = 12


@dataclass(frozen=True, slots=True)
class Redaction:
    """What must not be repeated."""

    secrets: tuple[str, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, environment: Mapping[str, str], *texts: str) -> "Redaction":
        """Hides the secrets among the variables, and the texts, plain or written as JSON."""
        secrets = {value for name, value in environment.items() if _SECRET_NAME.search(name)}
        forms = [form for text in texts for form in _forms(text)]
        return cls(tuple(sorted(secrets, key=len, reverse=True)), tuple(filter(None, forms)))

    def line(self, text: str) -> str:
        """The end of the text on one line, fit to be shown and logged."""
        lines = [self._unquoted(one_line(self._masked(line))) for line in _last_lines(text)]
        joined = " ".join(dict.fromkeys(filter(None, lines)))
        return joined if len(joined) <= MAX_CHARACTERS else "…" + joined[1 - MAX_CHARACTERS :]

    def _masked(self, text: str) -> str:
        for secret in self.secrets:
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, HIDDEN)
        for shape in _SHAPED_LIKE_A_SECRET:
            text = shape.sub(HIDDEN, text)
        return text

    def _unquoted(self, line: str) -> str:
        return HIDDEN if self._quotes(line) else line

    def _quotes(self, line: str) -> bool:
        starts = range(0, len(line) - _BLOCK + 1, _BLOCK)
        blocks = [line[start : start + _BLOCK] for start in starts]
        return any(text in line or any(block in text for block in blocks) for text in self.texts)


def _forms(text: str) -> Iterable[str]:
    yield one_line(text)
    yield one_line(json.dumps(text)[1:-1])
    yield one_line(json.dumps(text, ensure_ascii=False)[1:-1])


def _last_lines(text: str) -> list[str]:
    lines = [line.strip() for line in text[-_TAIL_CHARACTERS:].splitlines()]
    return [line[-MAX_CHARACTERS:] for line in lines if line][-3:]
