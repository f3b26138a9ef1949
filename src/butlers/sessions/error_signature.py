"""Reduce the output of a failed command to a signature that the same failure has again.

Numbers, versions, times, absolute paths and identifiers are replaced; names that tell one error
from another (a module, a port, an error code) stay. Hooks run this, so it imports very little.
"""

import re

_MAX_LINES, _MAX_CHARACTERS, _READ_CHARACTERS = 3, 400, 60_000
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What tools write before each line, and where in a file an error is.
_PREFIX = re.compile(
    r"^(?:[\s>|×╰─│*●✖!@]+|npm (?:ERR!|error)|E\s{2,}|#\d+ [\d.]+|\[(?:ERROR|error)\]|remote:"
    r"|(?:/\S*/)?(?:ba|z|da)?sh:(?: line)?(?: ?\d+:)?\s"
    r"|(?:psql:)?[\w./~@-]+[:(]\d+(?:[:,]\d+)?\)?:?(?: -)?\s|[EWF]\d{4} [\d:.]+\s+\d+ \S+\])\s*"
)
_ERROR = re.compile(
    r"\w(?:Error|Exception|Failure)\b|\b(?:error|fatal|failed|failure|cannot|can't|couldn't|denied"
    r"|could not|unable|not found|refused|missing|invalid|no such|undefined|rejected|expired"
    r"|unauthorized|unsupported|conflict|timed? ?out|not (?:available|supported|installed|allowed)"
    r"|does not exist|doesn't exist|overwritten|unexpected|no rule|forbidden|required|multiple"
    r"|changed|already in use|already allocated|in progress|externally|there is no|can only)\b",
    re.IGNORECASE,
)
# Lines that say only that something failed, or sum up.
_SUMMARY = re.compile(
    r"^(?:FAILED|ERROR|FAIL) \S+(?:::|\.\w+\b)|^\d+ (?:failed|errors?|passed)|^=+ |^_{3,}|^-+$"
    r"|^Interrupted|^make(?:\[\d+\])?: \*\*\* \[|BUILD FAILED|^FAILURE: Build|could not compile"
    r"|failed to push some refs|complete log of this run|subprocess-exited-with-error"
    r"|[Tt]est suite failed|^Found \d+ errors?|ERROR: failed to solve|^Caused by|^Traceback"
    r"|process didn't exit success|exit(?:ed)?(?: with)?(?: status| code)?:? \d+\W*$|^[Hh]int: "
    r"|^For more information|^To see the full|^Test(?:s| Suites):|^raise |^throw |ImportError while"
    r"|^Lock Info|build failed\]|^note: |did not run successfully|=> ERROR|^> \[|^Require stack"
    r"|^What went wrong|^at \S+ \(|^File \"|^Failed to query|^code |^Required by"
    r"|^Automatic merge failed|^\(Background on|^\s*Test Files |^collect2: |ld returned"
    r"|^Exit code \d|^Process exited|^Wall time|^Output:$",
)
_REPLACED = [
    (re.compile(r"https?://[^\s'\"`,)]+"), "<url>"),
    (re.compile(r"(?<=\s)\S+ -> \S+"), "<refs>"),
    (re.compile(r"\blocalhost\b"), "<ip>"),
    (re.compile(r"(?<=\w)\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}"), "<values>"),
    (re.compile(r"\btask ':[\w:-]+'"), "task <name>"),
    (re.compile(r"\bcalling the \w+ operation"), "calling <name>"),
    (re.compile(r"\bcommand not found(?=$|:)"), "not found"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[t ][\d:.,+z_-]+"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{20,}\b"), "<id>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,}\b|\b0x[0-9a-f]+\b"), "<id>"),
    # A commit's subject stands after its id.
    (re.compile(r"(?<=<id>)(?:\.\.\. [^|]*$| \([^)]*\))"), ""),
    (re.compile(r"\bpid:? \d+|\bline \d+|(?<=[a-z][-_])\d+\b(?!\.\w)"), "<n>"),
    (re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b"), "<ip>"),
    (re.compile(r"(?<![\w./-])[\w./-]+\.(?:\w{1,5}:\d+(?::\d+)?|o\b|pyc\b|class\b)"), "<path>"),
    (re.compile(r"(?<![\w.:<])~?/(?:[\w.@+-]+/)*(?=[\w.@+-])"), "<path>/"),
    (re.compile(r"[@-]?\bv?\d+(?:\.\d+)+[\w.+-]*"), "<n>"),
    (re.compile(r"(?<![\w:.-])(?<!port )(?<!code )(?<!code: )-?\d+(?:ms|s|%|kb|mb)?\b"), "<n>"),
]
_WHOLE_PATH = re.compile(r"<path>/[\w.@+-]+")
# Where a file is missing its name matters, else not.
_IS_MISSING = re.compile(r"no such file|could not open|cannot find|not found")
_TOO_COMMON = re.compile(
    r"(?:\w*error|\w*exception|fatal|failed|failure|exit|code|status|command|<\w+>|\W)*"
)


def error_lines(output: str) -> list[str]:
    """Return the lines of an output that say what went wrong, the first errors first."""
    lines = _COLOUR.sub("", output[-_READ_CHARACTERS:]).splitlines()
    lines = [line for line in map(_stripped, lines) if line]
    errors = [
        _with_next(lines, at)
        for at, line in enumerate(lines)
        if _ERROR.search(line) and not _SUMMARY.search(line)
    ]
    # A traceback ends with its error; other tools begin with theirs.
    if any(line.startswith("Traceback") for line in lines):
        errors = errors[-1:]
    chosen = errors or [line for line in lines if not _SUMMARY.search(line)][-1:]
    telling = [line for line in chosen if not _TOO_COMMON.fullmatch(_normalised(line))]
    return list({_normalised(line): line for line in reversed(telling)}.values())[::-1][:_MAX_LINES]


def error_signature(output: str) -> str:
    """Return the normalised error of a command's output; empty where none can be told."""
    return " | ".join(map(_normalised, error_lines(output)))[:_MAX_CHARACTERS]


def _with_next(lines: list[str], at: int) -> str:
    """Return a line, with the sentence that follows its colon."""
    following = lines[at + 1] if lines[at].endswith(":") and at + 1 < len(lines) else ""
    return f"{lines[at]} {following}" if following.count(" ") > 1 else lines[at]


def _stripped(line: str) -> str:
    """Return a line without what its tool writes before it."""
    before = None
    while before != line:
        before, line = line, _PREFIX.sub("", line)
    return line.strip()


def _normalised(line: str) -> str:
    """Return a line in lower case without what differs from run to run."""
    line = line.lower()
    for pattern, instead in _REPLACED:
        line = pattern.sub(instead, line)
    if not _IS_MISSING.search(line):
        line = _WHOLE_PATH.sub("<path>", line)
    return " ".join(line.split())
