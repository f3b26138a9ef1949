"""Check names of butlers, which become database names and parts of URLs."""

import re

from butlers.errors import InvalidInput

LONGEST_NAME = 40
# Words that are, or may become, pages of their own next to the butlers.
RESERVED_NAMES = frozenset(
    {"api", "butlers", "docs", "health", "mcp"} | {"memory", "metrics", "new", "notebook", "static"}
)
VALID_NAME = (
    f"a name of at most {LONGEST_NAME} lower-case letters, digits and underscores that starts "
    f"with a letter and is none of {', '.join(sorted(RESERVED_NAMES))}"
)


def validate_name(name: str) -> str:
    """Return the name if a butler may have it; otherwise raise InvalidInput."""
    well_formed = re.fullmatch(r"[a-z][a-z0-9_]*", name, re.ASCII)
    if not well_formed or len(name) > LONGEST_NAME or name in RESERVED_NAMES:
        raise InvalidInput(f"name: found {name!r}; valid is {VALID_NAME}")
    return name


def database_name(name: str) -> str:
    """Name the database of a butler; no two butlers share one."""
    return f"butler_{validate_name(name)}"
