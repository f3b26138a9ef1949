"""Conflicts and duplicates among facts, and how many values predicates have."""

from butlers.db.queries import load
from butlers.db.statements import FirstRow, Rows, Touched

_SQL = load(__file__)

find_predicates = Rows(_SQL["find_predicates"])
find_comparable = Rows(_SQL["find_comparable"])
insert = Touched(_SQL["insert"])
find_open = Rows(_SQL["find_open"])
lock = FirstRow(_SQL["lock"])
find_keys = Rows(_SQL["find_keys"])
settle = Touched(_SQL["settle"])
set_window = Touched(_SQL["set_window"])
find_predicate_rules = Rows(_SQL["find_predicate_rules"])
set_predicate_rule = Touched(_SQL["set_predicate_rule"])
