"""What nobody has read: how much it is, and keeping it."""

from butlers.db.queries import load
from butlers.db.statements import FirstRow, FirstValue, OnlyRow, Rows

_SQL = load(__file__)

count = OnlyRow(_SQL["count"])
newest_beyond = FirstRow(_SQL["newest_beyond"])
is_due = FirstValue[bool](_SQL["is_due"])
keep = Rows(_SQL["keep"])
