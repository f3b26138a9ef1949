"""Types of text settings, each with words for what is valid."""

import re
from collections.abc import Callable
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from butlers.db.address import is_address
from butlers.kernel.sections import Valid
from butlers.kernel.word_tables import load_tables

_TEXTS = load_tables(__file__)


def matching(pattern: str, valid: str) -> tuple[AfterValidator, Valid]:
    """Make a text setting match the whole pattern; `valid` says so in words."""
    return _accepting(re.compile(pattern).fullmatch, valid)


def _accepting(is_valid: Callable[[str], object], valid: str) -> tuple[AfterValidator, Valid]:
    def check(text: str) -> str:
        if not is_valid(text):
            raise ValueError(valid)
        return text

    return AfterValidator(check), Valid(valid)


def _is_empty_or_web_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # Reading the port is what checks it.
        is_web = parts.scheme in ("http", "https") and parts.port != 0
        return not url or (is_web and bool(parts.netloc))
    except ValueError:
        return False


Tenant = Annotated[str, *matching(**_TEXTS["tenant"])]
_EXAMPLE = "postgresql://user@host:5432/postgres"


def _is_database(url: str) -> bool:
    """Tell whether it is a URL of PostgreSQL, which may name several hosts."""
    return url.partition("://")[0] in ("postgresql", "postgres") and is_address(url)


DatabaseUrl = Annotated[
    str,
    *_accepting(lambda url: not url or _is_database(url), f'a URL such as "{_EXAMPLE}", or ""'),
]
ReplicaUrl = Annotated[str, *_accepting(_is_database, f'a URL such as "{_EXAMPLE}"')]
HttpUrl = Annotated[
    str,
    *_accepting(_is_empty_or_web_url, 'a URL such as "https://host/v1/chat/completions", or ""'),
]
VariableName = Annotated[str, *matching(**_TEXTS["variable"])]
ButlerUrl = Annotated[str, *matching(**_TEXTS["butler_url"])]
TokenVariable = Annotated[str, *matching(**_TEXTS["token_variable"])]
Directory = Annotated[str, Valid('the path of a directory, or ""')]
AnyTenant = Annotated[str, *matching(**_TEXTS["any_tenant"])]
BufferSize = Annotated[str, *matching(**_TEXTS["memory"])]
