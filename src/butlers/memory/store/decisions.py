"""Decisions: pieces of sessions that say what was settled."""

from butlers.db.queries import load
from butlers.db.statements import FirstRow, Rows, Touched

_SQL = load(__file__)

find_present = Rows(_SQL["find_present"])
find_past = Rows(_SQL["find_past"])
find_comparable = Rows(_SQL["find_comparable"])
find_quoting = Rows(_SQL["find_quoting"])
lock = FirstRow(_SQL["lock"])
set_past = Touched(_SQL["set_past"])
set_present = Touched(_SQL["set_present"])
