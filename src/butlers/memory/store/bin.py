"""The bin: what the cleanup removed, until it is emptied."""

from typing import Any

from butlers.db.queries import load
from butlers.db.statements import FirstValue, Rows

_SQL = load(__file__)

put = Rows(_SQL["put"])
find = Rows(_SQL["find"])
text_of = FirstValue[str](_SQL["text_of"])
take_out = FirstValue[dict[str, Any]](_SQL["take_out"])
put_back = FirstValue[str](_SQL["put_back"])
empty = Rows(_SQL["empty"])
