"""One pipeline for every log line: readable on a terminal, JSON elsewhere.

Lines carry butler, tenant and request id where they are known. Nothing here or elsewhere logs
what a memory says or what a token is; a last processor blanks keys that would.
"""

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

_SECRET_KEYS = frozenset({"token", "authorization", "password", "api_key", "secret", "dsn"})
_CONTENT_KEYS = frozenset({"content", "prompt", "query", "text", "arguments"})
# These libraries tell at INFO what callers sent them.
_TALKATIVE = ("mcp", "uvicorn.access", "alembic", "httpx2", "httpcore2", "asyncio")


def configure(
    level: str = "info", stream: TextIO | None = None, log_file: Path | None = None
) -> None:
    """Send every log line of the process, libraries included, through one pipeline.

    With `log_file` the lines are kept there too, as JSON, in a bounded number of files.
    """
    out = stream or sys.stderr
    handlers: list[logging.Handler] = [logging.StreamHandler(out)]
    handlers[0].setFormatter(_formatter(out.isatty()))
    if log_file:
        handlers.append(RotatingFileHandler(log_file, maxBytes=5_000_000, backupCount=3))
        handlers[1].setFormatter(_formatter(on_terminal=False))
    root = logging.getLogger()
    root.handlers[:] = handlers
    root.setLevel(level.upper())
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))
    structlog.configure(
        processors=[*_shared(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(root.level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _shared() -> list[structlog.typing.Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        blank_secrets,
    ]


def _formatter(on_terminal: bool) -> logging.Formatter:
    last: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(colors=True)]
        if on_terminal
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared(),
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )


def blank_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Blank what must never reach a log, should a caller have passed it along."""
    debugging = event.get("level") == "debug"
    for key in event:
        if key in _SECRET_KEYS or (key in _CONTENT_KEYS and not debugging):
            event[key] = "[not logged]"
    return event
