"""Rules and the reports on them."""

from uuid import UUID

from butlers.db.queries import load
from butlers.db.statements import FirstRow, FirstValue, Rows, Touched
from butlers.memory.store import memories

_SQL = load(__file__)

insert_application = Touched(_SQL["insert_application"])
find_counted_applications = Rows(_SQL["find_counted_applications"])
find_applications = Rows(_SQL["find_applications"])
find_harmful_applications = Rows(_SQL["find_harmful_applications"])

insert = Touched(_SQL["insert"])
get_by_idempotency_key = memories.get_rule_by_key
get_same = FirstValue[UUID](_SQL["get_same"])
find = memories.find_rules
find_current = Rows(_SQL["find_current"])
lock = FirstRow(_SQL["lock"])
mark = Touched(_SQL["mark"])
reword = Touched(_SQL["reword"])
confirm = FirstRow(_SQL["confirm"])
clear_report = Touched(_SQL["clear_report"])
forget = FirstValue[str](_SQL["forget"])
restore = FirstValue[str](_SQL["restore"])
find_awaiting_inversion = Rows(_SQL["find_awaiting_inversion"])
