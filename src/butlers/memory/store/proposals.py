"""What waits for somebody's yes."""

from butlers.db.queries import load
from butlers.db.statements import FirstRow, OnlyRow, OnlyValue, Rows, Touched

_SQL = load(__file__)

insert = Touched(_SQL["insert"])
get_by_idempotency_key = OnlyRow(_SQL["get_by_idempotency_key"])
find_waiting = Rows(_SQL["find_waiting"])
count_waiting = OnlyValue[int](_SQL["count_waiting"])
hold = FirstRow(_SQL["hold"])
decide = Touched(_SQL["decide"])
