"""Log readably on a terminal, as JSON elsewhere; secrets and contents of memories are blanked."""

import logging
import os
import sys
import traceback
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from butlers.errors import Unavailable
from butlers.kernel.secrets import SECRET_NAME, masked

_CONTENT_KEYS = frozenset({"content", "prompt", "query", "text", "arguments"})
# These libraries log at INFO what callers sent them.
_VERBOSE_LIBRARIES = ("mcp", "uvicorn", "alembic", "httpx2", "httpcore2", "asyncio")
_FILE_BYTES, _OLD_FILES = 5_000_000, 3


def configure(
    level: str = "info",
    stream: TextIO | None = None,
    log_file: Path | None = None,
    shown: str = "",
) -> None:
    """Configure logging of the process, libraries included; with `log_file`, also into files.

    The stream gets only what is at least at the level `shown`, if given.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    root = logging.getLogger()
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = _handlers(stream or sys.stderr, log_file, number <= logging.DEBUG)
    root.handlers[0].setLevel(shown.upper() or number)
    root.setLevel(number)
    for name in _VERBOSE_LIBRARIES:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
    logging.captureWarnings(True)
    structlog.configure(
        processors=[*_shared(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


class _PrivateFile(RotatingFileHandler):
    """A log file that only its owner may read, also after rotation."""

    def _open(self) -> TextIOWrapper:
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        return open(self.baseFilename, "a", encoding="utf-8", opener=private)


def _handlers(stream: TextIO, log_file: Path | None, debugging: bool) -> list[logging.Handler]:
    handlers: list[logging.Handler] = [logging.StreamHandler(stream)]
    handlers[0].setFormatter(_formatter(stream.isatty(), debugging))
    if log_file is not None:
        try:
            file = _PrivateFile(log_file, maxBytes=_FILE_BYTES, backupCount=_OLD_FILES)
        except OSError as error:
            raise Unavailable(
                f"cannot write the log {log_file} ({error.strerror}); fix its permissions or "
                "choose another home with --home or BUTLERS_HOME"
            ) from error
        file.setFormatter(_formatter(False, debugging))
        handlers.append(file)
    return handlers


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _formatter(on_terminal: bool, debugging: bool) -> logging.Formatter:
    render: Processor = structlog.processors.JSONRenderer()
    if on_terminal:
        render = structlog.dev.ConsoleRenderer(colors=True)
    formatter = structlog.stdlib.ProcessorFormatter
    processors: list[Processor] = [formatter.remove_processors_meta, redact, render]
    if debugging:
        processors.insert(1, structlog.processors.format_exc_info)
    return formatter(foreign_pre_chain=_shared(), processors=processors)


def redact(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Blank secrets and contents of memories, and mask what looks like a secret in any text."""
    if "exc_info" in event:
        _shorten_exception(event)
    debugging = event.get("level") == "debug"
    for key, value in event.items():
        is_secret = SECRET_NAME.search(key) and not isinstance(value, int)
        if is_secret or (key in _CONTENT_KEYS and not debugging):
            event[key] = "[not logged]"
        elif isinstance(value, str):
            event[key] = masked(value).text
    return event


def _shorten_exception(event: EventDict) -> None:
    """Replace an exception by its type and stack without the message, which may quote a memory."""
    info = event.pop("exc_info")
    error = sys.exc_info()[1] if info is True else info[1] if isinstance(info, tuple) else info
    if isinstance(error, BaseException):
        event["exception"] = "\n".join(_error_chain(error))


def _error_chain(error: BaseException) -> list[str]:
    """Return the chain of exceptions, first cause first."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    frames = [
        f"  {frame.filename}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    return [*(_error_chain(cause) if cause else ()), type(error).__qualname__, *frames]
