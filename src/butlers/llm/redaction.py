"""Shorten what a runtime wrote to one line without secrets and without the prompt."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from butlers.kernel.secrets import masked, secret_variables
from butlers.kernel.text import one_line

MAX_CHARACTERS = 300
HIDDEN = "[hidden]"
_TAIL_CHARACTERS = 8 * MAX_CHARACTERS

_SHORTEST_SECRET = 4
# Of two texts that share 23 characters or more, one of the blocks of 12 lies in the shared part.
_BLOCK = 12


@dataclass(frozen=True, slots=True)
class Redaction:
    """The secrets and texts that must not be repeated."""

    secrets: tuple[str, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, environment: Mapping[str, str], *texts: str) -> "Redaction":
        """Hide the secrets among the variables, and the texts, plain or as JSON."""
        secrets = sorted(secret_variables(environment), key=len, reverse=True)
        forms = [form for text in texts for form in _forms(text)]
        return cls(tuple(secrets), tuple(filter(None, forms)))

    def line(self, text: str) -> str:
        """Return the end of the text on one line, fit to be shown and logged."""
        tail = text[-_TAIL_CHARACTERS:]
        for secret in self.secrets:
            if len(secret) >= _SHORTEST_SECRET:
                tail = tail.replace(secret, HIDDEN)
        lines = filter(None, map(str.strip, masked(tail, HIDDEN).text.splitlines()))
        last = [one_line(line[-MAX_CHARACTERS:]) for line in lines][-3:]
        shown = (HIDDEN if self._quotes(line) else line for line in last)
        joined = " ".join(dict.fromkeys(filter(None, shown)))
        return joined if len(joined) <= MAX_CHARACTERS else "…" + joined[1 - MAX_CHARACTERS :]

    def _quotes(self, line: str) -> bool:
        starts = range(0, len(line) - _BLOCK + 1, _BLOCK)
        blocks = [line[start : start + _BLOCK] for start in starts]
        return any(text in line or any(block in text for block in blocks) for text in self.texts)


def _forms(text: str) -> Iterable[str]:
    yield one_line(text)
    yield one_line(json.dumps(text)[1:-1])
    yield one_line(json.dumps(text, ensure_ascii=False)[1:-1])
