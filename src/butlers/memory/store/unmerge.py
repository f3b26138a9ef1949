"""Undo the merge of entities."""

from butlers.db.queries import load
from butlers.db.statements import OnlyValue, Rows, Touched

_SQL = load(__file__)

split_facts = Rows(_SQL["split_facts"])
unlink_facts = Touched(_SQL["unlink_facts"])
split_conflicts = Touched(_SQL["split_conflicts"])
reopen = Rows(_SQL["reopen"])
restore_superseded = Rows(_SQL["restore_superseded"])
split_links = Touched(_SQL["split_links"])
find_by_name = Rows(_SQL["find_by_name"])
has_dependents = OnlyValue[bool](_SQL["has_dependents"])
