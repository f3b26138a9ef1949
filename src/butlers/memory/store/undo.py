"""What came from one source, and how to take it back."""

from butlers.db.queries import load
from butlers.db.statements import FirstRow, OnlyValue, Rows, Touched

_SQL = load(__file__)

find_stored = Rows(_SQL["find_stored"])
find_confirmations = Rows(_SQL["find_confirmations"])
find_history = Rows(_SQL["find_history"])
unconfirm_fact = FirstRow(_SQL["unconfirm_fact"])
unconfirm_rule = FirstRow(_SQL["unconfirm_rule"])
find_marks = Rows(_SQL["find_marks"])
find_forgotten = Rows(_SQL["find_forgotten"])
find_replaced = Rows(_SQL["find_replaced"])
find_keys = Rows(_SQL["find_keys"])
reconnect = Rows(_SQL["reconnect"])
unlink = Rows(_SQL["unlink"])
count_links = OnlyValue[int](_SQL["count_links"])
find_proposals = Rows(_SQL["find_proposals"])
find_entity_changes = Rows(_SQL["find_entity_changes"])
reopen_conflicts = Rows(_SQL["reopen_conflicts"])
delete_predicate_rules = Touched(_SQL["delete_predicate_rules"])
