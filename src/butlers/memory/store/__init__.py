"""The statements of the memory module; each is called as a function."""

from pathlib import Path

from butlers.db.queries import declare
from butlers.memory.records import FRAGMENTS

declare(__file__, FRAGMENTS)
declare(str(Path(__file__).parents[1] / "schema" / "fragments.sql"), FRAGMENTS)
