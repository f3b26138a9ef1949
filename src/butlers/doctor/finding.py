"""What one check of `butlers doctor` has to say."""

from dataclasses import dataclass
from enum import StrEnum

from butlers.kernel.text import normalise_whitespace as _line


class Severity(StrEnum):
    """How serious it is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; what is not well comes with a remedy."""

    check: str
    verdict: Severity
    message: str
    remedy: str = ""


def ok(check: str, message: str) -> Finding:
    """All is well."""
    return Finding(check, Severity.OK, message)


def warning(check: str, message: str, remedy: str) -> Finding:
    """It works, but somebody should look at it."""
    return Finding(check, Severity.WARNING, _line(message), _line(remedy))


def problem(check: str, message: str, remedy: str = "") -> Finding:
    """It will not work until somebody mends it; the message may hold the remedy itself."""
    return Finding(check, Severity.PROBLEM, _line(message), _line(remedy))
