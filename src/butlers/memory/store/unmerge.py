"""Entities and facts that were made one, apart again."""

from butlers.db.queries import load
from butlers.db.statements import OnlyValue, Rows, Touched

_SQL = load(__file__)

part_facts = Rows(_SQL["part_facts"])
let_go = Touched(_SQL["let_go"])
part_pairs = Touched(_SQL["part_pairs"])
reopen = Touched(_SQL["reopen"])
revive_lost = Rows(_SQL["revive_lost"])
part_links = Touched(_SQL["part_links"])
find_named_so = Rows(_SQL["find_named_so"])
hangs_on = OnlyValue[bool](_SQL["hangs_on"])
