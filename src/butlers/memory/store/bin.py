"""The bin: what the cleanup removed, until it is emptied."""

from butlers.db.queries import load
from butlers.db.statements import FirstValue, Rows, Touched

_SQL = load(__file__)

put = Touched(_SQL["put"])
remove = Rows(_SQL["remove"])
find = Rows(_SQL["find"])
text_of = FirstValue[str](_SQL["text_of"])
take_out = Touched(_SQL["take_out"])
put_back = FirstValue[str](_SQL["put_back"])
empty = Rows(_SQL["empty"])
