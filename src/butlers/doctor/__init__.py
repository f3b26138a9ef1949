"""`butlers doctor`: findings about a home, each with what to do about it."""

from dataclasses import dataclass
from enum import StrEnum

from butlers.kernel.text import normalise_whitespace as _line


class Severity(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: what was found, and what to do unless all is well."""

    check: str
    verdict: Severity
    message: str
    remedy: str = ""


def ok(check: str, message: str) -> Finding:
    """Report that a check passed."""
    return Finding(check, Severity.OK, message)


def warning(check: str, message: str, remedy: str) -> Finding:
    """Report something that works but needs attention."""
    return Finding(check, Severity.WARNING, _line(message), _line(remedy))


def problem(check: str, message: str, remedy: str = "") -> Finding:
    """Report something broken; the message may already say how to fix it."""
    return Finding(check, Severity.PROBLEM, _line(message), _line(remedy))
